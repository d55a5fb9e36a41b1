use super::*;
use crate::fixture::{World, ask, total};
use crate::submit::ask::GpuCount;

fn on(hosts: &[&str]) -> StockChoice {
    StockChoice {
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        partition: "gpu".into(),
        at_s: None,
    }
}

#[test]
fn the_words_of_22_05_are_read() {
    let said = "sbatch: Job 6 to start at 2026-11-30T19:59:12 using 2 processors on nodes n[1-2] in partition gpu\n";
    let choice = read(said).unwrap();
    assert_eq!((choice.hosts.len(), choice.at_s), (2, Some(1_796_068_752)));
    let said = "allocation failure: Requested node configuration is not available\n";
    assert_eq!(read(said).unwrap_err(), "Requested node configuration is not available");
    assert!(read("").is_err());
    let odd = "Job 1 to start at soon using";
    assert!(read(odd).is_err() || read(odd).unwrap().hosts.is_empty());
}

#[test]
fn every_set_of_the_hosts_is_valued() {
    let mut world = World::new(2);
    world.runs(1, "h1:0-3 h2:0-5", None);
    let stock = |ask: &Ask, hosts: &[&str]| world.with(|given| worth(given, ask, &on(hosts)));
    // Four free and two free: one and one, any of them.
    let each = stock(&ask(GpuCount::PerHost(1)), &["h1", "h2"]).unwrap();
    assert_eq!((each.sets, each.valued), (Some(8), 8));
    // 2 + 2, 3 + 1.
    let four = stock(&total(4), &["h1", "h2"]).unwrap();
    assert_eq!((four.sets, four.valued), (Some(6 + 4 * 2), 14));
    assert!(four.least <= four.mean && four.mean <= four.best && four.least > 0.0);
    assert_eq!(stock(&total(7), &["h1", "h2"]).unwrap_err().constraint, "nodelist");
}

#[test]
fn too_many_sets_are_sampled_the_same_way_every_time() {
    let world = World::new(3);
    let stock = || world.with(|given| worth(given, &total(12), &on(&["h1", "h2", "h3"]))).unwrap();
    let (first, again) = (stock(), stock());
    assert_eq!(first, again);
    assert_eq!(first.valued, MOST_SETS);
    assert!(first.sets > Some(MOST_SETS as u64));
}
