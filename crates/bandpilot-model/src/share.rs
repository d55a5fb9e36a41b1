//! What the cross-host level sees of each host, and of the whole set.

use bandpilot_core::HostTypeId;

/// One host's part of a set, reduced to what the cross-host model looks at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Type of the host.
    pub host_type: HostTypeId,
    /// Number of GPUs.
    pub count: u8,
    /// Number of those that take part in one ring: all, or where rings run side by side, one of each group.
    pub ranks: u8,
    /// The GPUs where it matters which (PCIe and mesh hosts); 0 on NVSwitch hosts.
    pub mask_key: u64,
    /// Bit of the share's size in eighths of the host: `1 << (ceil(8 count / gpus) - 1)`.
    pub level: u8,
    /// Sum of the line rates of the healthy NICs that serve the GPUs of one ring, GB/s.
    pub injection: f64,
    /// NIC rate that each GPU has when all send at once, GB/s.
    pub nic_per_gpu: f64,
    /// Rate of a single NIC, GB/s.
    pub nic_rate: f64,
    /// Number of those NICs, at least 1.
    pub rails: u8,
    /// What NVSwitch of the full host gives to the inner part of a tree, GB/s; infinite elsewhere.
    pub tree_plateau: f64,
    /// What NVSwitch of the full host gives to a ring, GB/s; infinite elsewhere.
    pub ring_plateau: f64,
    /// NVSwitch bandwidth of this many ranks at large messages, GB/s; infinite elsewhere and for one GPU.
    pub switch_cap: f64,
    /// Local bandwidth of these very GPUs on PCIe and mesh hosts at the message size, GB/s; infinite elsewhere and for
    /// one rank.
    pub local_cap: f64,
    /// What goes on inside the host besides the ring, seconds a step; 0 without groups.
    pub inner_seconds: f64,
}

impl Share {
    /// A value by which shares that the model cannot tell apart have the same key.
    fn key(&self) -> u64 {
        mix(self.size_key() ^ self.mask_key.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The key without which GPUs they are: only type and number.
    fn size_key(&self) -> u64 {
        mix(u64::from(self.host_type.0) << 8 | u64::from(self.ranks))
    }
}

/// `SplitMix64`'s finaliser: spreads keys so that their sum identifies a multiset.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A set as the cross-host model sees it. Order of hosts does not enter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aggregate {
    /// Number of hosts.
    pub hosts: usize,
    /// Number of GPUs.
    pub gpus: usize,
    /// Number of ranks of one ring.
    pub ranks: usize,
    /// Least number of ranks of any host.
    pub least_ranks: usize,
    /// Least injection bandwidth of any host, GB/s at line rate.
    pub injection: f64,
    /// Rails of the host that has it.
    pub rails: u8,
    /// Least NIC rate that a GPU has when all send at once, GB/s.
    pub nic_per_gpu: f64,
    /// Least rate of a single NIC, GB/s.
    pub nic_rate: f64,
    /// Union of the shares' levels.
    pub levels: u8,
    /// Least of what NVSwitch gives to the inner part of a tree, GB/s.
    pub tree_plateau: f64,
    /// Least of what NVSwitch gives to a ring, GB/s.
    pub ring_plateau: f64,
    /// Least NVSwitch bandwidth of a share.
    pub switch_cap: f64,
    /// Least local bandwidth of a share on PCIe and mesh hosts.
    pub local_cap: f64,
    /// Most of what goes on inside any host besides the ring, seconds a step.
    pub inner_seconds: f64,
    /// Sum of the shares' keys: identifies the multiset of shares.
    pub key: u64,
    /// The same for types and numbers of GPUs only.
    pub size_key: u64,
}

impl Aggregate {
    /// The set without any host.
    pub const EMPTY: Self = Self {
        hosts: 0,
        gpus: 0,
        ranks: 0,
        least_ranks: usize::MAX,
        injection: f64::INFINITY,
        rails: u8::MAX,
        nic_per_gpu: f64::INFINITY,
        nic_rate: f64::INFINITY,
        levels: 0,
        tree_plateau: f64::INFINITY,
        ring_plateau: f64::INFINITY,
        switch_cap: f64::INFINITY,
        local_cap: f64::INFINITY,
        inner_seconds: 0.0,
        key: 0,
        size_key: 0,
    };

    /// The set with `times` more hosts of this share.
    #[must_use]
    pub fn with(mut self, share: &Share, times: usize) -> Self {
        if times == 0 {
            return self;
        }
        self.hosts += times;
        self.gpus += share.count as usize * times;
        self.ranks += share.ranks as usize * times;
        self.least_ranks = self.least_ranks.min(share.ranks as usize);
        if share.injection < self.injection
            || (share.injection == self.injection && share.rails < self.rails)
        {
            self.injection = share.injection;
            self.rails = share.rails;
        }
        self.levels |= share.level;
        self.nic_per_gpu = self.nic_per_gpu.min(share.nic_per_gpu);
        self.nic_rate = self.nic_rate.min(share.nic_rate);
        self.tree_plateau = self.tree_plateau.min(share.tree_plateau);
        self.ring_plateau = self.ring_plateau.min(share.ring_plateau);
        self.switch_cap = self.switch_cap.min(share.switch_cap);
        self.local_cap = self.local_cap.min(share.local_cap);
        self.inner_seconds = self.inner_seconds.max(share.inner_seconds);
        let times = times as u64;
        self.key = self.key.wrapping_add(share.key().wrapping_mul(times));
        self.size_key = self.size_key.wrapping_add(share.size_key().wrapping_mul(times));
        self
    }
}

impl<'a> FromIterator<&'a Share> for Aggregate {
    fn from_iter<I: IntoIterator<Item = &'a Share>>(shares: I) -> Self {
        shares.into_iter().fold(Self::EMPTY, |set, share| set.with(share, 1))
    }
}
