//! Policies by name.

use std::fmt;

use crate::orders::{By, Easy, Order, Skip, Srtf, Strict};
use crate::placements::{BestFit, Counting, FewestHosts, FirstFit, PlacementRule, Random};

/// A queue order that can be named. A new one gets a row here.
#[derive(Debug)]
pub struct OrderName {
    /// The name.
    pub name: &'static str,
    /// What it does, in half a line.
    pub summary: &'static str,
    make: fn() -> Box<dyn Order>,
}

/// A placement rule that can be named. A new one gets a row here.
#[derive(Debug)]
pub struct PlacementName {
    /// The name.
    pub name: &'static str,
    /// What it does, in half a line.
    pub summary: &'static str,
    /// Gets the seed.
    make: fn(u64) -> Box<dyn PlacementRule>,
}

/// All queue orders.
pub const ORDERS: [OrderName; 6] = [
    OrderName {
        name: "fifo",
        summary: "in order of arrival, the first one blocks",
        make: || Box::new(Strict::new(By::Arrival)),
    },
    OrderName {
        name: "fifo-skip",
        summary: "in order of arrival, whoever fits starts",
        make: || Box::new(Skip::new(By::Arrival)),
    },
    OrderName {
        name: "sjf-strict",
        summary: "the shortest job blocks",
        make: || Box::new(Strict::new(By::WorkLeft)),
    },
    OrderName {
        name: "sjf-skip",
        summary: "shortest first, whoever fits starts",
        make: || Box::new(Skip::new(By::WorkLeft)),
    },
    OrderName {
        name: "srtf",
        summary: "least work left first, with preemption",
        make: || Box::<Srtf>::default(),
    },
    OrderName {
        name: "easy",
        summary: "EASY backfill: others may overtake the first one if they do not delay it",
        make: || Box::<Easy>::default(),
    },
];

/// All placement rules.
pub const PLACEMENTS: [PlacementName; 6] = [
    PlacementName {
        name: "counting",
        summary: "only the number of idle GPUs counts",
        make: |_| Box::new(Counting),
    },
    PlacementName {
        name: "first-fit",
        summary: "the first host with enough idle GPUs",
        make: |_| Box::new(FirstFit),
    },
    PlacementName {
        name: "best-fit",
        summary: "the host with the fewest idle GPUs that are enough",
        make: |_| Box::new(BestFit),
    },
    PlacementName {
        name: "packed",
        summary: "the fewest hosts, instances stay whole",
        make: |_| Box::new(FewestHosts::packed()),
    },
    PlacementName {
        name: "compact",
        summary: "the fewest hosts, split over what is left where need be",
        make: |_| Box::new(FewestHosts::compact()),
    },
    PlacementName {
        name: "random",
        summary: "any host with enough idle GPUs",
        make: |seed| Box::new(Random::new(seed)),
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
    pub fn make_order(&self) -> Box<dyn Order> {
        (self.order.make)()
    }

    /// A new rule that draws from a seed, if it draws at all.
    pub fn make_rule(&self, seed: u64) -> Box<dyn PlacementRule> {
        (self.placement.make)(seed)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.order.name, self.placement.name)
    }
}
