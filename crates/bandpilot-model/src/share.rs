//! What the cross-host level sees of each host, and of the whole set.

use bandpilot_core::HostTypeId;

/// One host's part of a set, reduced to what the cross-host model looks at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Type of the host.
    pub host_type: HostTypeId,
    /// Number of GPUs.
    pub count: u8,
    /// The GPUs where it matters which (PCIe and mesh hosts); 0 on NVSwitch hosts.
    pub mask_key: u64,
    /// Bit of the share's size in eighths of the host: `1 << (ceil(8 count / gpus) - 1)`.
    pub level: u8,
    /// Sum of the line rates of the healthy NICs that serve the GPUs, GB/s.
    pub injection: f64,
    /// Number of those NICs, at least 1.
    pub rails: u8,
    /// NVSwitch plateau of the full host, GB/s; infinite elsewhere.
    pub plateau: f64,
    /// NVSwitch bandwidth of this many GPUs at large messages, GB/s; infinite elsewhere and for one GPU.
    pub switch_cap: f64,
    /// Local bandwidth of these very GPUs on PCIe and mesh hosts at the message size, GB/s; infinite elsewhere and for
    /// one GPU.
    pub local_cap: f64,
}

impl Share {
    /// A value by which shares that the model cannot tell apart have the same key.
    fn key(&self) -> u64 {
        mix(self.size_key() ^ self.mask_key.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The key without which GPUs they are: only type and number.
    fn size_key(&self) -> u64 {
        mix(u64::from(self.host_type.0) << 8 | u64::from(self.count))
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
    /// Least injection bandwidth of any host, GB/s at line rate.
    pub injection: f64,
    /// Rails of the host that has it.
    pub rails: u8,
    /// Union of the shares' levels.
    pub levels: u8,
    /// Least NVSwitch plateau.
    pub plateau: f64,
    /// Least NVSwitch bandwidth of a share.
    pub switch_cap: f64,
    /// Least local bandwidth of a share on PCIe and mesh hosts.
    pub local_cap: f64,
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
        injection: f64::INFINITY,
        rails: u8::MAX,
        levels: 0,
        plateau: f64::INFINITY,
        switch_cap: f64::INFINITY,
        local_cap: f64::INFINITY,
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
        if share.injection < self.injection
            || (share.injection == self.injection && share.rails < self.rails)
        {
            self.injection = share.injection;
            self.rails = share.rails;
        }
        self.levels |= share.level;
        self.plateau = self.plateau.min(share.plateau);
        self.switch_cap = self.switch_cap.min(share.switch_cap);
        self.local_cap = self.local_cap.min(share.local_cap);
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
