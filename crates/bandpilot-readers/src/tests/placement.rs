use bandpilot_core::ClusterBuilder;
use proptest::prelude::*;

use super::*;

fn cluster() -> Cluster {
    ClusterBuilder::new("demo")
        .host_type("dgx", "H100", 8)
        .hosts("h", 1, 3)
        .host_type("small", "V100", 4)
        .hosts("v", 1, 1)
        .build()
}

fn messages(diagnostics: &[Diagnostic]) -> String {
    let lines: Vec<String> = diagnostics.iter().map(|d| d.display("P").to_string()).collect();
    lines.join("\n")
}

#[test]
fn reads_the_notation_on_a_cluster() {
    let cases = [
        ("h1:0-3,h2:0-7", "h1:0-3,h2:0-7"),
        ("h1:0-3,5,h2:1", "h1:0-3,5,h2:1"),
        ("h[1-3]:0-1,v1:0", "h1:0-1,h2:0-1,h3:0-1,v1:0"),
        ("v1", "v1:0-3"),
        ("h3,v1:0,2", "h3:0-7,v1:0,2"),
        ("h1:0,h1:1", "h1:0-1"),
        (" h2:1 , 3 , h1:0 ", "h1:0,h2:1,3"),
    ];
    for (text, expected) in cases {
        let read = on_cluster(text, &cluster());
        assert_eq!(messages(&read.diagnostics), "", "{text}");
        assert_eq!(read.value.display(&cluster()), expected, "{text}");
    }
}

#[test]
fn says_what_is_wrong_with_which_part() {
    let cases = [
        (
            "h1:0,x9:1",
            "P:1:6: error: x9:1: host 'x9' is not in cluster 'demo'\n  help: the hosts are h[1-3],v1",
        ),
        (
            "h4",
            "P:1:1: error: h4: host 'h4' is not in cluster 'demo'\n  help: near names: h1, h2, h3",
        ),
        ("h1:0,v1:2-5", "P:1:6: error: v1:2-5: host 'v1' has no GPU 4\n  help: its GPUs are 0-3"),
        (
            "h1:0-3,h1:3",
            "P:1:8: error: h1:3: GPU 3 of host 'h1' stands twice\n  help: name each GPU once",
        ),
        (
            "h1:0-3,2",
            "P:1:8: error: 2: GPU index 2 stands twice\n  help: write GPUs as in h1:0-3,5,h2:0",
        ),
        ("h1:", "P:1:1: error: h1:: no GPU index given\n  help: write GPUs as in h1:0-3,5,h2:0"),
        (
            "h1:7-4",
            "P:1:1: error: h1:7-4: range '7-4' runs backwards\n  help: write GPUs as in h1:0-3,5,h2:0",
        ),
        (
            "h1:0,64",
            "P:1:6: error: 64: GPU index 64 is above 63\n  help: write GPUs as in h1:0-3,5,h2:0",
        ),
        (
            "",
            "P:1:1: error: a host name is missing\n  help: write for example h1, h[1-4] or h[01-08,10]",
        ),
        (
            "h1:0,,h2:0",
            "P:1:6: error: a host name is missing\n  help: write for example h1, h[1-4] or h[01-08,10]",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(messages(&on_cluster(text, &cluster()).diagnostics), expected, "{text}");
    }
}

#[test]
fn wrong_parts_do_not_hide_the_others() {
    let read = on_cluster("h1:0,x:1,2,h2:9,h3:1", &cluster());
    assert_eq!(read.value.display(&cluster()), "h1:0,h3:1");
    assert_eq!(read.diagnostics.len(), 2);
}

#[test]
fn without_a_cluster_every_host_needs_gpus() {
    let read = by_name("b:0-3,a[1-2]:1,3");
    assert_eq!(format(&read.value), "a1:1,3,a2:1,3,b:0-3");
    assert_eq!(
        messages(&by_name("a,b:1").diagnostics),
        "P:1:1: error: a: 'a' has no GPUs\n  help: write for example a:0-7"
    );
    assert!(by_name("a:0,a:0").has_errors());
}

#[test]
fn expansion_is_limited_over_all_parts() {
    assert!(by_name("h[1-999999999]:0").has_errors());
    let many = vec!["h[1-60000]:0"; 50].join(",");
    assert!(by_name(&many).has_errors());
}

#[test]
fn short_form_gathers_hosts() {
    let cluster = cluster();
    let read = on_cluster("h[1-2]:0-7,h3:1,v1:1", &cluster);
    let short = format_short(&read.value, &cluster);
    assert_eq!(short, "h[1-2]:0-7,h3:1,v1:1");
    assert_eq!(on_cluster(&short, &cluster).value, read.value);
}

proptest! {
    #[test]
    fn names_round_trip(
        parts in prop::collection::btree_map("[a-z]{1,3}[0-9]{0,3}", 1_u64.., 1..8)
    ) {
        let placement: Vec<(String, GpuMask)> =
            parts.into_iter().map(|(name, bits)| (name, GpuMask(bits))).collect();
        let read = by_name(&format(&placement));
        prop_assert_eq!(messages(&read.diagnostics), "");
        prop_assert_eq!(read.value, placement);
    }

    #[test]
    fn cluster_placements_round_trip(masks in prop::array::uniform3(0_u64..256), v in 0_u64..16) {
        let cluster = cluster();
        let all = masks.into_iter().chain([v]).zip(cluster.host_ids());
        let placement = Placement::new(all.map(|(bits, host)| (host, GpuMask(bits))));
        prop_assume!(placement.gpus() > 0);
        for text in [placement.display(&cluster), format_short(&placement, &cluster)] {
            let read = on_cluster(&text, &cluster);
            prop_assert_eq!(messages(&read.diagnostics), "");
            prop_assert_eq!(&read.value, &placement);
        }
    }

    #[test]
    fn nothing_panics(text in ".{0,40}", other in "[hv0-4:,\\[\\]\\- é]{0,40}") {
        for text in [text, other] {
            let _ = on_cluster(&text, &cluster());
            let _ = by_name(&text);
        }
    }
}
