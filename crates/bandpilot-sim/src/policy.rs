//! Policies by name.

use std::fmt;

use crate::orders::{By, Easy, Las, Order, Skip, Srtf, Strict, TwoStage, theta_of_s};
use crate::placements::{
    Bandpilot, BestFit, Compass, CompassPrinted, Counting, Drain, FewestHosts, Fgd, FirstFit,
    PlacementRule, Random, Repack,
};
use crate::scheduler::Scheduler;
use crate::setting::Setting;

/// A queue order that can be named. A new one gets a row here.
#[derive(Debug)]
pub struct OrderName {
    /// The name.
    pub name: &'static str,
    /// What it does, in half a line.
    pub summary: &'static str,
    /// True if it draws at random.
    pub seeded: bool,
    make: for<'a> fn(&Setting<'a>) -> Box<dyn Order + 'a>,
}

/// A placement rule that can be named. A new one gets a row here.
#[derive(Debug)]
pub struct PlacementName {
    /// The name.
    pub name: &'static str,
    /// What it does, in half a line.
    pub summary: &'static str,
    /// True if it draws at random.
    pub seeded: bool,
    /// True if no cluster could place jobs so: shows what fragmentation costs other rules, and is no rule to choose.
    pub bound: bool,
    /// Gives nothing if it lacks something of the setting.
    make: for<'a> fn(&Setting<'a>) -> Option<Box<dyn PlacementRule + 'a>>,
}

/// All queue orders.
pub const ORDERS: [OrderName; 9] = [
    OrderName {
        name: "fifo",
        summary: "in order of arrival, the first one blocks",
        seeded: false,
        make: |_| Box::new(Strict::new(By::Arrival)),
    },
    OrderName {
        name: "fifo-skip",
        summary: "in order of arrival, whoever fits starts",
        seeded: false,
        make: |_| Box::new(Skip::new(By::Arrival)),
    },
    OrderName {
        name: "sjf-strict",
        summary: "the shortest job blocks",
        seeded: false,
        make: |_| Box::new(Strict::new(By::WorkLeft)),
    },
    OrderName {
        name: "sjf-skip",
        summary: "shortest first, whoever fits starts",
        seeded: false,
        make: |_| Box::new(Skip::new(By::WorkLeft)),
    },
    OrderName {
        name: "srtf",
        summary: "least work left first, with preemption",
        seeded: false,
        make: |_| Box::<Srtf>::default(),
    },
    OrderName {
        name: "easy",
        summary: "EASY backfill: others may overtake the first one if they do not delay it",
        seeded: false,
        make: |_| Box::<Easy>::default(),
    },
    OrderName {
        name: "las",
        summary: "least attained GPU time first, in levels, with preemption (Tiresias)",
        seeded: false,
        make: |setting| Box::new(Las::new(&setting.options.las_thresholds_gpu_s)),
    },
    OrderName {
        name: "two-stage",
        summary: "jobs that have run for long give way to the others, each in order of arrival",
        seeded: false,
        make: |setting| {
            let by_workload = || theta_of_s(setting.workload, setting.hosts.gpus());
            Box::new(TwoStage::new(setting.options.two_stage_theta_s.unwrap_or_else(by_workload)))
        },
    },
    OrderName {
        name: "priority",
        summary: "by priority plus age, the first one blocks",
        seeded: false,
        make: |setting| {
            let aging_s = setting.options.aging_s;
            Box::new(Strict::new(By::Priority { aging_s }))
        },
    },
];

/// All placement rules.
pub const PLACEMENTS: [PlacementName; 15] = [
    PlacementName {
        name: "counting",
        summary: "only the number of idle GPUs counts",
        seeded: false,
        bound: true,
        make: |_| Some(Box::new(Counting)),
    },
    PlacementName {
        name: "first-fit",
        summary: "the first host with enough idle GPUs",
        seeded: false,
        bound: false,
        make: |_| Some(Box::new(FirstFit)),
    },
    PlacementName {
        name: "best-fit",
        summary: "the host with the fewest idle GPUs that are enough",
        seeded: false,
        bound: false,
        make: |_| Some(Box::new(BestFit)),
    },
    PlacementName {
        name: "packed",
        summary: "the fewest hosts, instances stay whole",
        seeded: false,
        bound: false,
        make: |_| Some(Box::new(FewestHosts::packed())),
    },
    PlacementName {
        name: "compact",
        summary: "the fewest hosts, split over what is left where need be",
        seeded: false,
        bound: false,
        make: |_| Some(Box::new(FewestHosts::compact())),
    },
    PlacementName {
        name: "fgd",
        summary: "where fragmentation for the mix of the trace falls the most (FGD, ATC'23)",
        seeded: false,
        bound: false,
        make: |setting| Some(Box::new(Fgd::new(setting.workload))),
    },
    PlacementName {
        name: "random",
        summary: "any host with enough idle GPUs",
        seeded: true,
        bound: false,
        make: |setting| Some(Box::new(Random::new(setting.seed))),
    },
    PlacementName {
        name: "bandpilot",
        summary: "the greatest bandwidth beside the running jobs, however it is split",
        seeded: false,
        bound: false,
        make: |setting| Some(Box::new(Bandpilot::splitting(setting)?)),
    },
    PlacementName {
        name: "bandpilot-whole",
        summary: "the same, instances stay whole",
        seeded: false,
        bound: false,
        make: |setting| Some(Box::new(Bandpilot::whole(setting)?)),
    },
    PlacementName {
        name: "bandpilot-tradeoff",
        summary: "like bandpilot, but a share of the bandwidth is given up for less fragmentation",
        seeded: false,
        bound: false,
        make: |setting| Some(Box::new(Bandpilot::trading(setting)?)),
    },
    PlacementName {
        name: "drain",
        summary: "best-fit; the least used hosts are emptied for a job that does not fit",
        seeded: false,
        bound: false,
        make: |_| Some(Box::<Drain>::default()),
    },
    PlacementName {
        name: "repack",
        summary: "best-fit; running jobs are packed anew round by round",
        seeded: false,
        bound: false,
        make: |setting| Some(Box::new(Repack::new(setting.options.round_s))),
    },
    PlacementName {
        name: "compass",
        summary: "anchors in slots (COMPASS-ABS, repaired); few jobs move, to let another one start",
        seeded: false,
        bound: false,
        make: |setting| Some(Box::new(Compass::moving(setting.options))),
    },
    PlacementName {
        name: "compass-printed",
        summary: "the same as the paper prints it: compacted after every event",
        seeded: false,
        bound: false,
        make: |_| Some(Box::<CompassPrinted>::default()),
    },
    PlacementName {
        name: "compass-place-only",
        summary: "the same, nobody moves",
        seeded: false,
        bound: false,
        make: |_| Some(Box::new(Compass::place_only())),
    },
];

/// A queue order with a placement rule.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// The order.
    pub order: &'static OrderName,
    /// The rule.
    pub placement: &'static PlacementName,
}

/// Why a policy was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownPolicy {
    /// It has no slash.
    #[error("'{0}' is not ORDER/PLACEMENT, for example fifo/best-fit")]
    NoSlash(String),
    /// The part before the slash.
    #[error("'{0}' is not a queue order; there are {list}", list = list(ORDERS.iter().map(|o| o.name)))]
    Order(String),
    /// The part behind the slash.
    #[error("'{0}' is not a placement rule; there are {list}", list = list(PLACEMENTS.iter().map(|p| p.name)))]
    Placement(String),
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

impl Policy {
    /// True if runs with different seeds may differ.
    pub const fn seeded(&self) -> bool {
        self.order.seeded || self.placement.seeded
    }

    /// True if it packs all running jobs anew, wherever they are: what no rule that moves a few jobs can be measured by.
    pub fn repacks(&self) -> bool {
        self.placement.name == "repack"
    }

    /// True if it may split an instance over hosts, which rules that keep instances whole can hardly be measured by: next to nothing
    /// is blocked by scattered GPUs then.
    pub fn splits(&self) -> bool {
        ["compact", "bandpilot", "bandpilot-tradeoff"].contains(&self.placement.name)
    }

    /// Reads `fifo/best-fit`.
    ///
    /// # Errors
    /// If there is no such order or rule.
    pub fn parse(text: &str) -> Result<Self, UnknownPolicy> {
        let text = text.trim();
        let parts = text.split_once('/');
        let (order, rule) = parts.ok_or_else(|| UnknownPolicy::NoSlash(text.to_owned()))?;
        let (order, rule) = (order.trim(), rule.trim());
        Ok(Self {
            order: ORDERS
                .iter()
                .find(|known| known.name == order)
                .ok_or_else(|| UnknownPolicy::Order(order.to_owned()))?,
            placement: PLACEMENTS
                .iter()
                .find(|known| known.name == rule)
                .ok_or_else(|| UnknownPolicy::Placement(rule.to_owned()))?,
        })
    }

    /// A new order.
    pub fn make_order<'a>(&self, setting: &Setting<'a>) -> Box<dyn Order + 'a> {
        (self.order.make)(setting)
    }

    /// A new placement rule.
    ///
    /// # Errors
    /// If the rule looks at bandwidths and the setting has none.
    pub fn make_rule<'a>(
        &self,
        setting: &Setting<'a>,
    ) -> Result<Box<dyn PlacementRule + 'a>, NeedsNetwork> {
        (self.placement.make)(setting).ok_or(NeedsNetwork(self.placement.name))
    }

    /// A scheduler that has not seen a job yet.
    ///
    /// # Errors
    /// If the rule looks at bandwidths and the setting has none.
    pub fn scheduler<'a>(&self, setting: &Setting<'a>) -> Result<Scheduler<'a>, NeedsNetwork> {
        let rule = self.make_rule(setting)?;
        Ok(Scheduler::new(setting.hosts.clone(), self.make_order(setting), rule))
    }
}

/// A rule that looks at bandwidths was asked for in a setting without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' needs a bandwidth model")]
pub struct NeedsNetwork(&'static str);

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.order.name, self.placement.name)
    }
}
