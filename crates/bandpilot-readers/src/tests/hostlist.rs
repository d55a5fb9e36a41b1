use proptest::prelude::*;

use super::*;

#[test]
fn expands_brackets_of_every_kind() {
    let cases: [(&str, &[&str]); 8] = [
        ("login", &["login"]),
        ("h[1-3]", &["h1", "h2", "h3"]),
        ("h[08-10,7]", &["h08", "h09", "h10", "h7"]),
        ("g[1-2]x[0-1]", &["g1x0", "g1x1", "g2x0", "g2x1"]),
        (" a , b ", &["a", "b"]),
        ("[1-2]", &["1", "2"]),
        ("h[001-002]-ib", &["h001-ib", "h002-ib"]),
        ("h[5]", &["h5"]),
    ];
    for (text, names) in cases {
        assert_eq!(expand(text).unwrap(), names, "{text}");
    }
    assert_eq!(expand("h[001-128,130],gpu-[1-2]x[0-3],login").unwrap().len(), 128 + 1 + 8 + 1);
}

#[test]
fn refuses_with_the_column() {
    let cases = [
        ("", 1, "missing"),
        ("a,,b", 3, "missing"),
        ("a,h[1-", 4, "not closed"),
        ("h[1-2", 2, "not closed"),
        ("h]", 2, "']'"),
        ("h[3-1]", 3, "backwards"),
        ("h[1,x]", 5, "neither"),
        ("h[]", 3, "neither"),
        ("h[1-9999999999999999999]", 3, "digits"),
        ("a,h[1-999999999]", 3, "more than 100000"),
        ("h[0-999]x[0-999]", 1, "more than 100000"),
        ("h[1-2]é", 7, "'é'"),
        ("h 1", 2, "' '"),
    ];
    for (text, column, part) in cases {
        let error = expand(text).unwrap_err();
        assert!(error.message.contains(part), "{text}: {}", error.message);
        assert_eq!(error.column, column, "{text}: {}", error.message);
    }
}

#[test]
fn hostile_lists_are_refused_before_they_are_expanded() {
    let long = "a".repeat(255);
    assert_eq!(expand(&long).unwrap(), std::slice::from_ref(&long));
    assert!(expand(&format!("{long}1")).unwrap_err().message.contains("longer than 255"));
    let many = format!("h[1-50000]{}", "[1]".repeat(8));
    assert!(expand(&many).unwrap_err().message.contains("more than 8 brackets"));
}

#[test]
fn the_limit_counts_over_all_items() {
    assert_eq!(expand("h[1-100000]").unwrap().len(), MAX_HOSTS);
    assert!(expand("h[1-100000],x").is_err());
}

#[test]
fn compresses_runs() {
    let cases: [(&[&str], &str); 6] = [
        (&["h1", "h2", "h3"], "h[1-3]"),
        (&["h08", "h09", "h10"], "h[08-10]"),
        (&["h9", "h10", "h011"], "h[9-10,011]"),
        (&["h1", "login", "h2"], "h1,login,h2"),
        (&["g1x0", "g1x1", "g2x0"], "g1x[0-1],g2x0"),
        (&[], ""),
    ];
    for (names, text) in cases {
        assert_eq!(compress(names.iter().copied()), text);
    }
    assert_eq!(compress(["h99999999999999999999", "é1"]), "h99999999999999999999,é1");
}

#[test]
fn a_name_that_looks_like_an_option_is_refused() {
    for text in ["-x", "h1,-x", "-[1-3]", "h1, -x", "h1,\n-x", " -x"] {
        assert!(expand(text).unwrap_err().message.contains("begins with a dash"), "{text}");
    }
}

proptest! {
    #[test]
    fn what_is_compressed_expands_to_the_same(
        names in prop::collection::vec("([a-c]{1,2}[-.x]?|[.x]?)[0-9]{1,4}(-ib[0-1])?|[a-c]{1,3}", 1..40)
    ) {
        let text = compress(names.iter().map(String::as_str));
        prop_assert_eq!(expand(&text).unwrap(), names);
    }

    #[test]
    fn runs_of_numbers_round_trip(low in 0_u64..1000, count in 1_u64..200, width in 0_usize..5) {
        let names: Vec<String> = (low..low + count).map(|n| format!("h{n:0width$}")).collect();
        let text = compress(names.iter().map(String::as_str));
        prop_assert_eq!(expand(&text).unwrap(), names);
    }

    #[test]
    fn nothing_panics(text in ".{0,60}", other in "[a-b0-9,\\[\\]\\- ]{0,40}") {
        let _ = expand(&text);
        let _ = expand(&other);
        let _ = compress([text.as_str(), other.as_str()]);
    }
}
