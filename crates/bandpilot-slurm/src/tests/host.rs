use super::*;

/// In the form of driver 535 (`nvsmi_device_v12.dtd`), written by hand: a host whose device files do not follow the bus.
const XML: &str = r#"<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<driver_version>535.54.03</driver_version>
	<attached_gpus>4</attached_gpus>
	<gpu id="00000000:07:00.0">
		<product_name>NVIDIA A100-SXM4-40GB</product_name>
		<mig_mode><current_mig>Disabled</current_mig></mig_mode>
		<uuid>GPU-aa07</uuid>
		<minor_number>2</minor_number>
	</gpu>
	<gpu id="00000000:0F:00.0">
		<product_name>NVIDIA A100-SXM4-40GB</product_name>
		<uuid>GPU-aa0f</uuid>
		<minor_number>3</minor_number>
	</gpu>
	<gpu id="00000000:47:00.0">
		<product_name>NVIDIA A100-SXM4-40GB</product_name>
		<uuid>GPU-bb47</uuid>
		<minor_number>0</minor_number>
	</gpu>
	<gpu id="00000000:4E:00.0">
		<product_name>NVIDIA A100-SXM4-40GB</product_name>
		<uuid>GPU-bb4e</uuid>
		<minor_number>1</minor_number>
	</gpu>
</nvidia_smi_log>
"#;

fn all() -> Vec<Device> {
    let read = devices(XML);
    assert_eq!(read.diagnostics, []);
    read.value
}

fn env(visible: Option<&str>) -> Environment {
    let order = "PCI_BUS_ID".to_owned();
    Environment { visible: visible.map(ToOwned::to_owned), order }
}

fn minors(devices: &[Device], visible: Option<&str>) -> Result<Vec<usize>, String> {
    let has = usable(devices, &env(visible))?;
    Ok(has.iter().map(|device| device.minor.unwrap()).collect())
}

fn planned(gpus: &str, uuids: &[(usize, &str)]) -> HostGpus {
    let uuids = uuids.iter().map(|(at, uuid)| (*at, (*uuid).to_owned())).collect();
    HostGpus { host: "h1".to_owned(), gpus: GpuMask::parse(gpus).unwrap(), uuids }
}

fn judged(planned: &HostGpus, devices: &[Device], visible: Option<&str>) -> (Option<bool>, String) {
    let seen = judge("12", planned, false, &usable(devices, &env(visible)));
    (seen.agrees, seen.differs)
}

#[test]
fn devices_are_read() {
    let first = Device {
        minor: Some(2),
        uuid: "GPU-aa07".to_owned(),
        pci_bus_id: "00000000:07:00.0".to_owned(),
        model: "NVIDIA A100-SXM4-40GB".to_owned(),
        mig: false,
    };
    assert_eq!((all().len(), &all()[0]), (4, &first));
    for (text, expected) in [
        ("", "error: is not the XML of nvidia-smi"),
        ("<a/>", "h:1:1: error: is not the XML of nvidia-smi"),
        ("No devices were found", "h:1:1: error: is not the XML of nvidia-smi"),
        (&XML.replace("<uuid>GPU-bb47</uuid>", ""), "h:17:2: error: uuid: a GPU has none"),
    ] {
        let said = devices(text).diagnostics[0].display("h").to_string();
        assert!(said.contains(expected), "{said}");
    }
    let many =
        XML.replace("<gpu id=\"00000000:07:00.0\">", &"<gpu><uuid>x</uuid></gpu>".repeat(99));
    assert!(devices(&many).value.len() <= MAX_GPUS_PER_HOST);
}

#[test]
fn places_count_among_what_the_driver_shows() {
    let all = all();
    let only: Vec<Device> = all[1..3].to_vec();
    assert_eq!(minors(&all, None), Ok(vec![2, 3, 0, 1]));
    assert_eq!(minors(&all, Some("1,2")), Ok(vec![3, 0]));
    assert_eq!(minors(&all, Some("GPU-aa0f,GPU-bb47")), Ok(vec![3, 0]));
    // The same job with ConstrainDevices.
    assert_eq!(minors(&only, Some("0,1")), Ok(vec![3, 0]));
    assert_eq!(minors(&only, None), Ok(vec![3, 0]));
    assert_eq!(minors(&all, Some("")), Ok(vec![]));
    assert_eq!(minors(&all, Some("NoDevFiles")), Ok(vec![]));
    assert_eq!(minors(&all, Some("1,9,2")), Ok(vec![3]));
    // It fits two.
    assert_eq!(minors(&all, Some("GPU-bb")), Ok(vec![]));
    assert!(minors(&all, Some("1,1")).is_err());
    assert!(minors(&all, Some("MIG-GPU-1/2/3")).is_err());
    assert!(minors(&[], Some("0")).is_ok_and(|none| none.is_empty()));
    let mut cut = all.clone();
    cut[3].mig = true;
    assert!(minors(&cut, Some("0")).is_err());
    let mut mixed = all;
    mixed[3].model = "NVIDIA T4".to_owned();
    assert!(minors(&mixed, Some("0")).is_ok());
    let unordered = Environment { order: String::new(), ..env(Some("0")) };
    assert!(usable(&mixed, &unordered).is_err());
}

#[test]
fn indexes_are_device_files_and_not_places() {
    let all = all();
    let none = String::new;
    assert_eq!(judged(&planned("0,3", &[]), &all, Some("1,2")), (Some(true), none()));
    // What Slurm writes without ConstrainDevices on this host: device files, which CUDA takes for places.
    assert_eq!(
        judged(&planned("0,3", &[]), &all, Some("0,3")),
        (Some(false), "h1: planned 0,3, has 1-2".to_owned())
    );
    assert_eq!(
        judged(&planned("0,3", &[]), &all, Some("1")),
        (None, "h1: this task sees 3 of 0,3".to_owned())
    );
    assert_eq!(
        judged(&planned("0,3", &[]), &all, Some("")),
        (Some(false), "h1: planned 0,3, has none".to_owned())
    );
    let whole = judge("12", &planned("0", &[]), true, &usable(&all, &env(None)));
    assert_eq!((whole.agrees, whole.source), (Some(true), Source::Host));
}

#[test]
fn uuids_are_compared_where_the_plan_has_them() {
    let mut all = all();
    let right = planned("0,3", &[(0, "GPU-BB47"), (3, "GPU-aa0f")]);
    assert_eq!(judged(&right, &all, Some("1,2")), (Some(true), String::new()));
    let one = planned("0,3", &[(3, "GPU-aa07")]);
    assert_eq!(
        judged(&one, &all, Some("1,2")),
        (Some(false), "h1: GPU 3 is GPU-aa07 in the plan and GPU-aa0f on the host".to_owned())
    );
    let swapped = planned("0,3", &[(0, "GPU-cc"), (3, "GPU-aa0f")]);
    assert_eq!(
        judged(&swapped, &all, Some("1,2")),
        (Some(false), "h1: not planned: GPU-bb47".to_owned())
    );
    // Without device files the UUIDs alone tell.
    for device in &mut all {
        device.minor = None;
    }
    assert_eq!(judged(&right, &all, Some("1,2")), (Some(true), String::new()));
    assert_eq!(judged(&planned("0,3", &[]), &all, Some("1,2")).0, None);
}

#[test]
fn damaged_texts_never_panic() {
    for at in (0..XML.len()).filter(|at| XML.is_char_boundary(*at)) {
        devices(&XML[..at]);
        devices(&format!("{}<{}", &XML[..at], &XML[at..]));
    }
}
