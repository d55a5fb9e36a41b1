//! The accounting of a test's Slurm: a real slurmdbd on a `MariaDB` of its own.
//!
//! `MariaDB` listens on a socket in a folder that only the user can enter, and on no port: so it needs no passwords and no
//! tables of rights. Its system tables come from Debian's own script; the stored procedures of slurmdbd need them.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bandpilot_testdata::find_program;

use crate::SlurmCluster;

/// What it needs beside Slurm.
pub(crate) const PROGRAMS: [&str; 4] = ["slurmdbd", "mariadbd", "sacct", "sacctmgr"];
const SYSTEM_TABLES: &str = "/usr/share/mysql/mysql_system_tables.sql";
/// Small, and without care for what a crash would lose.
const OPTIONS: [&str; 9] = [
    "--skip-grant-tables",
    "--skip-networking",
    "--skip-log-bin",
    "--innodb-log-file-size=8M",
    "--innodb-buffer-pool-size=16M",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-flush-method=nosync",
    "--innodb-doublewrite=0",
    "--performance-schema=0",
];

impl SlurmCluster {
    /// Where `MariaDB` listens; the environment variable `MYSQL_UNIX_PORT` tells it to slurmdbd.
    pub(crate) fn database_socket(&self) -> PathBuf {
        self.path("db/socket")
    }

    /// Lines of slurm.conf.
    pub(crate) fn accounting_conf(&self) -> String {
        let mut tres = "gres/gpu".to_owned();
        for gpu in 0..self.setup.gpus {
            write!(tres, ",gres/gpu:g{gpu}").unwrap_or_default();
        }
        format!(
            "AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={}
AccountingStoragePass={}
AccountingStorageTRES={tres}
",
            self.accounting_port(),
            // No password: the socket of munge, for those that speak to slurmdbd.
            self.path("munge/socket").display()
        )
    }

    /// Starts `MariaDB` and slurmdbd, and has the cluster known there.
    pub(crate) fn launch_accounting(&mut self) -> Result<(), String> {
        let said = |error: std::io::Error| error.to_string();
        let folder = self.path("db");
        let private = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(said)
        };
        std::fs::create_dir(&folder).map_err(said)?;
        private(&folder, 0o700)?;
        let data = format!("--datadir={}", folder.display());
        let user = format!("--user={}", self.setup_user());
        let mut argv = vec!["mariadbd", "--no-defaults", &data, &user];
        argv.extend(OPTIONS);
        self.make_tables(&argv)?;
        let socket = self.database_socket();
        let at = format!("--socket={}", socket.display());
        let pid = format!("--pid-file={}", folder.join("pid").display());
        argv.extend([at.as_str(), &pid]);
        self.daemon("mariadbd", &argv)?;
        self.until("mariadbd has its socket", || socket.exists())?;

        let conf = self.path("slurmdbd.conf");
        std::fs::write(&conf, self.slurmdbd_conf()).map_err(said)?;
        private(&conf, 0o600)?;
        self.daemon("slurmdbd", &["slurmdbd", "-D"])?;
        let env = self.env();
        self.until("slurmdbd takes the cluster", || {
            let mut add = Command::new("sacctmgr");
            add.args(["-i", "add", "cluster", "test"]).stdin(Stdio::null());
            let done = add.envs(env.iter().map(|(key, value)| (key, value))).output();
            // The answer to an earlier try may have been lost.
            done.is_ok_and(|output| {
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                output.status.success() || said.contains("already exists")
            })
        })
    }

    fn make_tables(&self, argv: &[&str]) -> Result<(), String> {
        let said = |error: std::io::Error| error.to_string();
        std::fs::create_dir(self.path("db/mysql")).map_err(said)?;
        let script = std::fs::read_to_string(SYSTEM_TABLES).map_err(said)?;
        let file = self.path("tables.sql");
        std::fs::write(&file, format!("use mysql;\n{script}")).map_err(said)?;
        let program = find_program(argv.first().unwrap_or(&"")).ok_or("is not installed")?;
        let output = Command::new(program)
            .args(argv.get(1..).unwrap_or_default())
            .arg("--bootstrap")
            .stdin(std::fs::File::open(file).map_err(said)?)
            .output()
            .map_err(said)?;
        if output.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn slurmdbd_conf(&self) -> String {
        let folder = self.path("");
        let (folder, port) = (folder.display(), self.accounting_port());
        format!(
            "AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={}
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct
",
            self.setup_user()
        )
    }
}
