//! `dispatch --tradeoff`.

use serde_json::Value;

use crate::{folder_with, run};

const STATE: &str =
    "[[job]]\nname = 'a'\nplacement = 'h1:0-3'\n[[job]]\nname = 'b'\nplacement = 'h2:0-1'\n";

fn dispatch(args: &str) -> (i32, String, String) {
    let folder = folder_with(&[("s.toml", STATE)]);
    let args: Vec<&str> = "dispatch --state s.toml".split(' ').chain(args.split(' ')).collect();
    run(folder.path(), &args)
}

fn json(args: &str) -> Value {
    let (code, out, err) = dispatch(&format!("{args} --json"));
    assert_eq!(code, 0, "{args}: {err}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn bandwidth_is_given_up_for_full_hosts() {
    let plain = json("--gpus 14");
    assert_eq!(plain["tradeoff"], Value::Null);
    // Too little to give up for anything.
    let strict = json("--gpus 14 --tradeoff 1%");
    assert_eq!(strict["placement"], plain["placement"]);
    assert_eq!(strict["tradeoff"]["price_gbytes_per_s"], 0.0);
    let traded = json("--gpus 14 --tradeoff 5");
    let told = &traded["tradeoff"];
    assert_eq!(told["share"], 0.05);
    assert_eq!(told["after_best"]["avoidable_partial_hosts"], 3);
    assert_eq!(told["after_chosen"]["avoidable_partial_hosts"], 0);
    assert_eq!(told["after_chosen"]["hosts_in_use"], 3);
    assert_eq!(told["proven"], true);
    let number = |value: &Value| value.as_f64().unwrap();
    let (best, chosen) = (&told["best_gbytes_per_s"], &told["chosen_gbytes_per_s"]);
    assert_eq!(best, &plain["busbw_gbytes_per_s"]["effective"]);
    assert_eq!(chosen, &traded["busbw_gbytes_per_s"]["effective"]);
    assert_eq!(number(&told["price_gbytes_per_s"]), number(best) - number(chosen));
    assert!(number(chosen) >= 0.95 * number(best));
    // The certificate is that of the whole search.
    assert_eq!(traded["upper_bound_gbytes_per_s"], plain["upper_bound_gbytes_per_s"]);
    assert_eq!(traded["alternatives"][0]["kind"], "best_bandwidth");
    assert_eq!(traded["alternatives"][0]["placement"], plain["placement"]);
}

#[test]
fn among_sets_worth_the_same_the_hosts_decide() {
    // Nothing is exchanged by a single GPU, and whole hosts stay whole; instances are kept.
    let one = json("--gpus 1 --tradeoff 0%");
    assert_eq!(one["tradeoff"]["after_chosen"]["hosts_in_use"], 2);
    let instances = json("--instances 1 --gpus-per-instance 4 --tradeoff 0");
    assert_eq!(instances["placement"]["h1"].as_array().unwrap().len(), 4, "{instances}");
    assert_eq!(instances["tradeoff"]["after_chosen"]["avoidable_partial_hosts"], 0);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (args, part) in [
        ("--gpus 4 --tradeoff=-1", "between 0% and 100%"),
        ("--gpus 4 --tradeoff 101%", "between 0% and 100%"),
        ("--gpus 4 --tradeoff much", "write per cent such as 3%"),
        ("--parallel dp=4 --tradeoff 3%", "for the shortest step"),
    ] {
        let (code, out, err) = dispatch(args);
        assert_eq!(code, 2, "{args}: {err}");
        assert!(
            out.is_empty() && err.contains(part) && err.contains("--tradeoff"),
            "{args}: {err}"
        );
    }
}

#[test]
fn people_are_told_the_price() {
    let (code, out, err) = dispatch("--gpus 14 --tradeoff 5% --compare topo");
    assert_eq!(code, 0, "{err}");
    assert!(
        out.contains("given up, 4.9 % of the best (5.0 % allowed): no set within that leaves"),
        "{out}"
    );
    assert!(!out.contains("more time (--deadline-ms)"), "{out}");
    assert!(out.contains(" after the chosen set  422.6 "), "{out}");
}
