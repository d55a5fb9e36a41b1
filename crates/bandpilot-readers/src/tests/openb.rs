use std::io::Read as _;

use proptest::prelude::*;

use super::*;

fn remarks<T>(read: &Parsed<T>) -> Vec<(u32, &str, &str)> {
    let all = read.diagnostics.iter();
    all.map(|d| (d.line, d.field.as_str(), d.message.as_str())).collect()
}

#[test]
fn columns_are_found_by_name() {
    let read = read_nodes("model,gpu,x,sn,cpu_milli\nP100,2,y,a,64000\n,0,,b,8000.0\n");
    assert_eq!(read.diagnostics, []);
    let row = |at: usize| &read.value.rows[at];
    assert_eq!((&*row(0).name, &*row(0).model, row(0).gpus, row(0).line), ("a", "P100", 2, 2));
    assert_eq!((row(1).cpu_milli, row(1).memory_mib, row(1).gpus), (8000, 0, 0));
    let text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\np,12000,16384,1,460,T4|P100,LS\n";
    let read = read_pods(text);
    assert_eq!(read.diagnostics, []);
    let pod = &read.value.rows[0];
    assert_eq!(
        (pod.gpus, pod.gpu_milli, &*pod.gpu_spec, pod.memory_mib),
        (1, 460, "T4|P100", 16384)
    );
}

#[test]
fn wrong_rows_are_listed_and_counted() {
    let head = "name,cpu_milli,num_gpu,gpu_milli\n";
    let rows = "a,1,1,1000\na,1,1,1000\nb,-1,0,0\n,1,0,0\nc,1,0,5\nd,1,1,0\ne,1,2,500\nf,1,1,1001\ng,1,65,1000\nh,1\ni,,0,0\n";
    let read = read_pods(&format!("{head}{rows}"));
    let expected = [
        (3, "name", "'a' stands in line 2 already"),
        (4, "cpu_milli", "'-1' is not a whole number from 0 to 100000000"),
        (5, "name", "is empty"),
        (6, "gpu_milli", "5 thousandths of no GPU"),
        (7, "gpu_milli", "0 thousandths of 1 GPUs"),
        (8, "gpu_milli", "500 thousandths of 2 GPUs"),
        (9, "gpu_milli", "'1001' is not a whole number from 0 to 1000"),
        (10, "num_gpu", "'65' is not a whole number from 0 to 64"),
        (11, "", "2 cells below 4 columns"),
        (12, "cpu_milli", "is empty"),
    ];
    assert_eq!(remarks(&read), expected);
    assert_eq!((read.value.rows.len(), read.value.bad_rows), (1, 10));
    let many = read_nodes(&format!("sn,cpu_milli,gpu\n{}", "x,1,?\n".repeat(250)));
    assert_eq!((many.value.bad_rows, many.diagnostics.len()), (250, 101));
}

#[test]
fn a_wrong_header_names_the_columns() {
    assert_eq!(remarks(&read_nodes(" \n")), [(0, "", "the file is empty")]);
    let read = read_nodes("\nsn,cpu_mili,gpu,gpu\na,1,2,3\n");
    let expected =
        [(2, "gpu", "the column stands twice"), (2, "cpu_milli", "the table has no such column")];
    assert_eq!(remarks(&read), expected);
    assert_eq!(read.diagnostics[1].help, "is it 'cpu_mili'?");
    let swapped = read_pods("sn,cpu_milli,memory_mib,gpu,model\na,1,1,1,x\n");
    assert!(remarks(&swapped).contains(&(1, "num_gpu", "the table has no such column")));
}

#[test]
fn the_published_lists_are_read() {
    let Some(data) = bandpilot_testdata::require_data("openb::the_published_lists") else { return };
    let unpack = |file: &str| {
        let packed = std::fs::File::open(data.join("traces/openb").join(file)).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
        text
    };
    let nodes = read_nodes(&unpack("openb_node_list_gpu_node.csv.gz"));
    assert_eq!(nodes.diagnostics, []);
    let gpus: u32 = nodes.value.rows.iter().map(|node| node.gpus).sum();
    let cpu: u32 = nodes.value.rows.iter().map(|node| node.cpu_milli).sum();
    assert_eq!((nodes.value.rows.len(), gpus, cpu), (1213, 6212, 107_018_000));
    let all = read_nodes(&unpack("openb_node_list_all_node.csv.gz"));
    assert_eq!((all.diagnostics.len(), all.value.rows.len()), (0, 1523));
    for file in ["openb_pod_list_default.csv.gz", "openb_pod_list_gpuspec33.csv.gz"] {
        let pods = read_pods(&unpack(file));
        assert_eq!(pods.diagnostics, [], "{file}");
        let sharing = pods.value.rows.iter().filter(|pod| (1..1000).contains(&pod.gpu_milli));
        assert_eq!((pods.value.rows.len(), sharing.count()), (8152, 3078), "{file}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read(text in "(sn,cpu_milli,gpu|name,cpu_milli,num_gpu,gpu_milli)\n([a-c0-9,.\"\n-]{0,80})") {
        let (nodes, pods) = (read_nodes(&text), read_pods(&text));
        prop_assert!(nodes.value.bad_rows == 0 || !nodes.diagnostics.is_empty());
        for pod in &pods.value.rows {
            prop_assert!(pod.gpu_milli == 1000 || pod.gpus == u32::from(pod.gpu_milli > 0));
        }
    }
}
