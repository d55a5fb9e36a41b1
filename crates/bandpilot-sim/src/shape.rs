//! What jobs ask for, and the hosts that they ask it of.

use bandpilot_core::{Cluster, GpuMask, HostId};

/// GPU models that a job accepts, bit `i` for the `i`-th model of [`Hosts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelSet(pub u64);

impl ModelSet {
    /// Any model.
    pub const ANY: Self = Self(u64::MAX);

    /// True if the `model`-th is among them.
    pub const fn has(self, model: usize) -> bool {
        model < 64 && self.0 >> model & 1 == 1
    }

    /// The models that a word stands for: any if it is empty, else those of that name without regard to case; `|` stands
    /// between alternatives.
    pub fn named(word: &str, models: &[String]) -> Self {
        if word.is_empty() {
            return Self::ANY;
        }
        let named = |name: &String| word.split('|').any(|w| w.trim().eq_ignore_ascii_case(name));
        let bits = models.iter().enumerate().filter(|(_, name)| named(name));
        Self(bits.fold(0, |set, (at, _)| set | 1 << at))
    }
}

/// GPUs that a job asks for, in instances that must each stay inside one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// GPUs of a full instance.
    pub instance_gpus: u32,
    /// Number of full instances.
    pub instances: u32,
    /// GPUs of one further, smaller instance; 0 if there is none.
    pub rest_gpus: u32,
    /// True if whoever submitted the job named the instances; else they follow from the size of the hosts.
    pub stated: bool,
    /// Models that will do.
    pub models: ModelSet,
    /// Thousandths of each GPU: 1000, or less for a job that shares a single one.
    pub milli: u16,
}

impl Shape {
    /// A job that only says how many GPUs it takes: whole hosts and one instance for what is left,
    /// `g = min(gpus, host_gpus)`, `w = ceil(gpus / g)`.
    ///
    /// ```
    /// let shape = bandpilot_sim::Shape::of_total(20, 8);
    /// assert_eq!((shape.instances, shape.instance_gpus, shape.rest_gpus), (2, 8, 4));
    /// ```
    pub fn of_total(gpus: u32, host_gpus: u32) -> Self {
        Self { stated: false, ..Self::of_instances(gpus, host_gpus.min(gpus)) }
    }

    /// A job of `gpus` GPUs in instances of `instance_gpus`, the last of which may be smaller.
    pub fn of_instances(gpus: u32, instance_gpus: u32) -> Self {
        let instance_gpus = instance_gpus.max(1);
        Self {
            instance_gpus,
            instances: gpus / instance_gpus,
            rest_gpus: gpus % instance_gpus,
            stated: true,
            models: ModelSet::ANY,
            milli: 1000,
        }
    }

    /// A job that takes so many thousandths (1 to 999) of one GPU.
    ///
    /// ```
    /// let shape = bandpilot_sim::Shape::of_share(250);
    /// assert_eq!((shape.gpus(), shape.total_milli(), shape.size_gpus()), (1, 250, 0.25));
    /// ```
    pub fn of_share(milli: u16) -> Self {
        Self { milli: milli.clamp(1, 999), ..Self::of_total(1, 1) }
    }

    /// The same, on these models only.
    #[must_use]
    pub const fn on(mut self, models: ModelSet) -> Self {
        self.models = models;
        self
    }

    /// True if it takes a part of one GPU.
    pub const fn shares(&self) -> bool {
        self.milli < 1000
    }

    /// Thousandths of a GPU over all instances.
    pub const fn total_milli(&self) -> usize {
        self.gpus() * self.milli as usize
    }

    /// GPUs over all instances, a share being a part of one.
    pub fn size_gpus(&self) -> f64 {
        self.total_milli() as f64 / 1000.0
    }

    /// GPUs over all instances; a share counts as one.
    pub const fn gpus(&self) -> usize {
        self.instance_gpus as usize * self.instances as usize + self.rest_gpus as usize
    }
}

/// A cluster has more GPU models than a [`ModelSet`] holds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the cluster has more than 64 GPU models")]
pub struct TooManyModels;

/// The hosts of a cluster as far as scheduling looks at them.
#[derive(Debug, Clone)]
pub struct Hosts {
    healthy: Vec<GpuMask>,
    model: Vec<u8>,
    sizes: Vec<usize>,
    models: Vec<String>,
    /// Healthy GPUs of the largest host of each model.
    largest: Vec<u32>,
}

impl Hosts {
    /// The hosts with their healthy GPUs.
    ///
    /// # Errors
    /// If there are more than 64 GPU models.
    pub fn new(cluster: &Cluster) -> Result<Self, TooManyModels> {
        let mut models: Vec<String> = Vec::new();
        let mut model = Vec::with_capacity(cluster.hosts.len());
        for host in cluster.host_ids() {
            let name = &cluster.type_of(host).gpu_model;
            let at = models.iter().position(|known| known.eq_ignore_ascii_case(name));
            model.push(at.unwrap_or(models.len()) as u8);
            if at.is_none() {
                models.push(name.clone());
            }
            if models.len() > 64 {
                return Err(TooManyModels);
            }
        }
        let healthy: Vec<GpuMask> =
            cluster.host_ids().map(|host| cluster.healthy_gpus(host)).collect();
        let mut largest = vec![0; models.len()];
        for (model, gpus) in model.iter().zip(&healthy) {
            let largest = &mut largest[usize::from(*model)];
            *largest = gpus.count().max(*largest as usize) as u32;
        }
        let sizes = cluster.host_ids().map(|host| cluster.type_of(host).gpus).collect();
        Ok(Self { healthy, model, sizes, models, largest })
    }

    /// The same, nothing being known of GPU models: every job will do with any.
    #[must_use]
    pub fn of_any_model(mut self) -> Self {
        self.model.fill(0);
        self.models = vec![String::new()];
        self.largest = vec![self.largest.iter().copied().max().unwrap_or(0)];
        self
    }

    /// Number of hosts.
    pub fn len(&self) -> usize {
        self.healthy.len()
    }

    /// True if there is no host.
    pub fn is_empty(&self) -> bool {
        self.healthy.is_empty()
    }

    /// Healthy GPUs of all hosts.
    pub fn gpus(&self) -> usize {
        self.healthy.iter().map(|mask| mask.count()).sum()
    }

    /// Healthy GPUs of a host.
    pub fn healthy(&self, host: HostId) -> GpuMask {
        self.healthy[host.index()]
    }

    /// GPUs of a host, also those that are not healthy.
    pub fn size(&self, host: HostId) -> usize {
        self.sizes[host.index()]
    }

    /// Index of a host's GPU model.
    pub fn model(&self, host: HostId) -> usize {
        usize::from(self.model[host.index()])
    }

    /// Number of GPU models.
    pub fn models(&self) -> usize {
        self.models.len()
    }

    /// Healthy GPUs of the largest host with one of these models; 0 if there is none.
    pub fn largest(&self, models: ModelSet) -> u32 {
        let of_models = self.largest.iter().enumerate().filter(|(model, _)| models.has(*model));
        of_models.map(|(_, gpus)| *gpus).max().unwrap_or(0)
    }

    /// True if the cluster says which GPU models it has.
    pub fn models_known(&self) -> bool {
        self.models.iter().any(|name| !name.is_empty())
    }

    /// The models that a word stands for: any if it is empty, else those of that name without regard to case; `|` stands
    /// between alternatives.
    pub fn models_named(&self, word: &str) -> ModelSet {
        ModelSet::named(word, &self.models)
    }
}
