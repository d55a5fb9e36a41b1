//! A history as a trace file.

use std::collections::BTreeMap;

use super::History;

/// Whose jobs are told apart in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tenant {
    /// The account; the user where there is none.
    #[default]
    Account,
    /// The user.
    User,
    /// The partition.
    Partition,
}

const HEADER: [&str; 10] = [
    "job_id",
    "submit_s",
    "duration_s",
    "gpus",
    "instances",
    "gpus_per_instance",
    "gpu_type",
    "qos",
    "tenant",
    "wait_s",
];

impl History {
    /// The trace: a row for each job, times from [`History::origin_s`] on. With `anonymous`, tenants are `t1`, `t2`, ... and qualities of service `q1`, `q2`, ... in the order of
    /// their first jobs.
    pub fn write(&self, tenant: Tenant, anonymous: bool) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let (mut tenants, mut services) = (Names::new("t", anonymous), Names::new("q", anonymous));
        // A vector takes everything, and every row has the columns of the header.
        let _ = writer.write_record(HEADER);
        let origin_s = self.origin_s();
        for job in &self.jobs {
            let owner = match tenant {
                Tenant::Account if !job.account.is_empty() => &job.account,
                Tenant::Account | Tenant::User => &job.user,
                Tenant::Partition => &job.partition,
            };
            let instances = job.gpus_per_instance.map(|size| job.gpus.div_ceil(size.max(1)));
            let or_empty = |number: Option<u32>| number.map_or(String::new(), |n| n.to_string());
            let _ = writer.write_record([
                job.name.clone(),
                (job.submit_s - origin_s).to_string(),
                job.duration_s.to_string(),
                job.gpus.to_string(),
                or_empty(instances),
                or_empty(job.gpus_per_instance),
                job.gpu_models.clone(),
                services.of(&job.qos),
                tenants.of(owner),
                job.wait_s.to_string(),
            ]);
        }
        let bytes = writer.into_inner().unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

struct Names {
    letter: &'static str,
    anonymous: bool,
    given: BTreeMap<String, usize>,
}

impl Names {
    fn new(letter: &'static str, anonymous: bool) -> Self {
        Self { letter, anonymous, given: BTreeMap::new() }
    }

    fn of(&mut self, name: &str) -> String {
        if !self.anonymous || name.is_empty() {
            // A trace has one line for a row, and a terminal would obey the others.
            return name.replace(char::is_control, "?");
        }
        let next = self.given.len() + 1;
        let number = self.given.entry(name.to_owned()).or_insert(next);
        format!("{}{number}", self.letter)
    }
}
