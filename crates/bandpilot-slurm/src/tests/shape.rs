use super::*;
use crate::fixture::{ask, total};

const ANY: Span = Span { least: 1, most: 64, asked: false };

fn on(hosts: usize) -> Span {
    Span { least: hosts, most: hosts, asked: true }
}

/// GPUs, unit, hosts, most on a host, and how tasks go of the first shape.
fn first(ask: &Ask, span: Span) -> (usize, usize, (usize, usize), usize, Tasks) {
    let shape = shapes(ask, span).unwrap()[0];
    let most = shape.most_on_host;
    (shape.gpus, shape.unit, (shape.least_hosts, shape.most_hosts), most, shape.tasks)
}

#[test]
fn counts_go_as_slurm_says() {
    use GpuCount::{PerHost, PerTask, Total};
    const ANY_NUMBER: usize = usize::MAX;
    let tasks = |gpus, tasks: usize| Ask { tasks: Some(tasks), ..ask(gpus) };
    let each = |gpus, each: usize| Ask { tasks_per_host: Some(each), ..ask(gpus) };
    let cases = [
        (total(8), ANY, (8, 1, (1, 8), ANY_NUMBER, Tasks::PerHost(1))),
        (total(8), on(2), (8, 1, (2, 2), ANY_NUMBER, Tasks::PerHost(1))),
        (tasks(Total(8), 4), ANY, (8, 2, (1, 4), ANY_NUMBER, Tasks::ForGpus(2))),
        (tasks(Total(4), 8), ANY, (4, 1, (1, 4), ANY_NUMBER, Tasks::PerGpu(2))),
        (tasks(Total(6), 4), ANY, (6, 6, (1, 1), ANY_NUMBER, Tasks::PerHost(4))),
        (each(Total(8), 2), ANY, (8, 1, (1, 8), ANY_NUMBER, Tasks::PerHost(2))),
        (
            Ask { tasks_per_gpu: Some(2), ..total(4) },
            ANY,
            (4, 1, (1, 4), ANY_NUMBER, Tasks::PerGpu(2)),
        ),
        (
            Ask { tasks_per_gpu: Some(2), ..ask(PerHost(4)) },
            on(2),
            (8, 4, (2, 2), 4, Tasks::PerHost(8)),
        ),
        // Tasks on every host and hosts are known: so are the tasks.
        (each(Total(8), 4), on(2), (8, 1, (2, 2), 4, Tasks::ForGpus(1))),
        (each(PerTask(2), 2), on(2), (8, 2, (2, 2), 4, Tasks::ForGpus(2))),
        (tasks(PerTask(2), 3), ANY, (6, 2, (1, 3), ANY_NUMBER, Tasks::ForGpus(2))),
        (ask(PerTask(2)), ANY, (2, 2, (1, 1), ANY_NUMBER, Tasks::ForGpus(2))),
        (ask(PerHost(4)), ANY, (4, 4, (1, 1), 4, Tasks::PerHost(1))),
        (ask(PerHost(4)), on(3), (12, 4, (3, 3), 4, Tasks::PerHost(1))),
        (tasks(PerHost(4), 6), on(3), (12, 4, (3, 3), 4, Tasks::PerHost(2))),
        (each(PerHost(4), 4), on(3), (12, 4, (3, 3), 4, Tasks::PerHost(4))),
        (tasks(PerHost(4), 6), ANY, (4, 4, (1, 1), 4, Tasks::PerHost(6))),
    ];
    for (ask, span, expected) in cases {
        assert_eq!(first(&ask, span), expected, "{ask:?} on {span:?}");
    }
    let both = Ask { tasks: Some(8), tasks_per_host: Some(4), ..ask(PerHost(4)) };
    assert_eq!(first(&both, ANY), (8, 4, (2, 2), 4, Tasks::PerHost(4)));
    let range = Span { least: 2, most: 4, asked: true };
    let hosts: Vec<usize> =
        shapes(&ask(PerHost(2)), range).unwrap().iter().map(|shape| shape.least_hosts).collect();
    assert_eq!(hosts, [4, 3, 2]);
}

#[test]
fn counts_that_contradict_each_other_are_refused() {
    use GpuCount::{PerHost, PerTask};
    let cases = [
        (total(0), ANY, "gpus"),
        (Ask { tasks: Some(0), ..total(1) }, ANY, "gpus"),
        (Ask { tasks: Some(4), ..total(6) }, on(2), "ntasks"),
        (Ask { tasks: Some(5), ..ask(PerHost(1)) }, on(2), "ntasks"),
        (total(2), on(3), "nodes"),
        (Ask { tasks: Some(2), ..ask(PerTask(1)) }, on(3), "nodes"),
        (Ask { tasks: Some(8), tasks_per_host: Some(2), ..total(8) }, on(2), "ntasks-per-node"),
        (Ask { tasks: Some(8), tasks_per_host: Some(1), ..total(4) }, ANY, "ntasks-per-node"),
    ];
    for (ask, span, option) in cases {
        let misfit = shapes(&ask, span).unwrap_err();
        assert_eq!(misfit.option, option, "{ask:?} {misfit:?}");
        assert!(!misfit.possible.is_empty());
    }
}
