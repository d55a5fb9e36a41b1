//! The answer as JSON.

use bandpilot_dispatch::Fragmentation;
use serde_json::{Map, Value, json};

use super::Shown;
use super::human::alternatives;
use super::request::Size;
use crate::commands::parts;
use crate::output::remarks_json;

/// The object.
pub fn value(shown: &Shown) -> Value {
    let Shown { ground, answer, .. } = shown;
    let cluster = &ground.cluster;
    let mut object = parts::worth_json(&answer.chosen, &answer.grounds);
    let keys = [
        ("cluster", json!(cluster.name)),
        ("model", json!(shown.model)),
        ("request", request(shown)),
        ("placement", json!(parts::gpus_json(cluster, &answer.chosen.placement))),
        ("upper_bound_gbytes_per_s", json!(answer.upper_bound)),
        ("gap", json!(answer.gap)),
        ("tradeoff", tradeoff(shown)),
        ("instances", json!(instances(shown))),
        ("alternatives", json!(others(shown))),
        ("compared", json!(compared(shown))),
        ("harm", json!(parts::harm_json(&answer.harm))),
        ("spares", json!(parts::gpus_json(cluster, &answer.spares))),
        ("launch", json!(launch(shown))),
        ("search_steps", json!(answer.steps)),
        ("diagnostics", json!(remarks_json(&shown.remarks))),
    ];
    object.extend(keys.into_iter().map(|(key, value)| (key.to_owned(), value)));
    Value::from(object)
}

fn request(shown: &Shown) -> Value {
    let request = &shown.asked.request;
    let instance = match shown.asked.size {
        Size::Instances { gpus, .. } => Some(gpus),
        _ => None,
    };
    json!({
        "gpus": request.gpus,
        "gpus_per_instance": instance,
        "bytes": request.bytes,
        "collective": shown.collective.name(),
        "protect": request.protect,
        "spare_hosts": request.spare_hosts,
    })
}

fn tradeoff(shown: &Shown) -> Value {
    let Some(tradeoff) = &shown.answer.tradeoff else { return Value::Null };
    let left = |left: &Fragmentation| {
        json!({
            "avoidable_partial_hosts": left.avoidable,
            "partial_hosts": left.partial,
            "hosts_in_use": left.in_use,
            "exact": left.exact,
        })
    };
    json!({
        "share": tradeoff.share,
        "best_gbytes_per_s": tradeoff.best.effective,
        "chosen_gbytes_per_s": shown.answer.chosen.effective,
        "price_gbytes_per_s": tradeoff.price,
        "before": left(&tradeoff.before),
        "after_best": left(&tradeoff.best_leaves),
        "after_chosen": left(&tradeoff.leaves),
        "proven": tradeoff.proven,
        "avoidable_partial_hosts_bound": tradeoff.avoidable_bound,
    })
}

fn instances(shown: &Shown) -> Vec<Value> {
    shown
        .instances
        .iter()
        .map(|instance| {
            json!({
                "host": shown.ground.cluster.host(instance.host).name,
                "gpus": instance.gpus.iter().collect::<Vec<_>>(),
                "inside_gbytes_per_s": instance.inside,
            })
        })
        .collect()
}

fn others(shown: &Shown) -> Vec<Value> {
    alternatives(shown)
        .map(|(kind, set)| {
            json!({
                "kind": kind,
                "placement": parts::gpus_json(&shown.ground.cluster, &set.placement),
                "isolated_gbytes_per_s": set.isolated,
                "effective_gbytes_per_s": set.effective,
            })
        })
        .collect()
}

fn compared(shown: &Shown) -> Vec<Value> {
    shown
        .compared
        .iter()
        .map(|rule| {
            json!({
                "policy": rule.policy.name(),
                "placement": parts::gpus_json(&shown.ground.cluster, &rule.set.placement),
                "isolated_gbytes_per_s": rule.set.isolated,
                "effective_gbytes_per_s": rule.set.effective,
                "of_chosen": shown.of_chosen(rule),
                "greatest_loss": rule.greatest_loss,
                "meets_request": rule.meets_request,
            })
        })
        .collect()
}

fn launch(shown: &Shown) -> Map<String, Value> {
    let launch = &shown.answer.launch;
    let mut object = parts::launch_json(launch);
    // Every host has one context here.
    let environment: Map<String, Value> =
        launch.contexts.iter().map(|c| (c.host.clone(), json!(c.environment))).collect();
    let ranks: Vec<Value> =
        launch.ranks.iter().map(|rank| Value::from(parts::rank_json(rank))).collect();
    object.insert("environment".to_owned(), json!(environment));
    object.insert("ranks".to_owned(), json!(ranks));
    object
}
