//! The only place that reads and writes files.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bandpilot_readers::Diagnostic;
use flate2::read::MultiGzDecoder;

use crate::exit::{Code, Failure};

/// Largest file that is read.
const MAX_BYTES: u64 = 1 << 30;

/// So long a file that another program has locked is waited for.
const LONGEST_LOCK: Duration = Duration::from_secs(20);

/// First bytes of gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The text of a file, or of stdin for `-`. Bytes that are not UTF-8 are replaced.
///
/// # Errors
/// If the file cannot be read, is larger than 1 GiB, or is damaged gzip.
pub fn read_text(path: &Path) -> Result<String, Failure> {
    let read = if path.as_os_str() == "-" {
        read_limited(io::stdin().lock())
    } else {
        File::open(path).and_then(read_limited)
    };
    read.map_err(|error| failure(path, "read", &error))
}

fn read_limited(source: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    source.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 1 GiB"));
    }
    // Told by content; what is inside is not unpacked again.
    if bytes.starts_with(&GZIP) {
        bytes = unpacked(&bytes)?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn unpacked(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = MultiGzDecoder::new(packed).take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| {
        io::Error::new(io::ErrorKind::InvalidData, format!("its gzip is damaged: {error}"))
    })?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "it is larger than 1 GiB when unpacked",
        ));
    }
    Ok(bytes)
}

/// The minor number of a character device, behind links.
///
/// # Errors
/// What it is instead, in words.
#[cfg(unix)]
pub fn device_of(path: &Path) -> Result<u32, String> {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
    let about = std::fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "is not there".to_owned(),
        _ => error.to_string(),
    })?;
    if about.file_type().is_char_device() {
        return Ok(rustix::fs::minor(about.rdev()));
    }
    Err(if about.is_file() { "is a regular file" } else { "is no device" }.to_owned())
}

/// The files of a folder in order of name, those that begin with a dot left out; folders in it are not entered.
///
/// # Errors
/// If the folder cannot be read or has no file.
pub fn files_of(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let read = || -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let hidden = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.'));
            if path.is_file() && !hidden {
                files.push(path);
            }
        }
        files.sort();
        if files.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the folder has no file"));
        }
        Ok(files)
    };
    read().map_err(|error| failure(folder, "read", &error))
}

/// Appends to a file while nobody else does: `change` gets what is in it (nothing if it is new) and
/// gives the text to append. The text is on disk when this returns; if writing fails half-way the file
/// is cut back to what it was.
///
/// # Errors
/// If the file cannot be locked, read or written, or if `change` fails; then nothing is appended.
pub fn append_locked<T>(
    path: &Path,
    change: impl FnOnce(&str) -> Result<(String, T), Failure>,
) -> Result<T, Failure> {
    let io_failure = |error: &io::Error| failure(path, "write", error);
    if is_special(path) {
        let error = io::Error::other("it is no regular file, and what is in it has to be read");
        return Err(io_failure(&error));
    }
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(path)
        .map_err(|error| io_failure(&error))?;
    // Released when the file is closed, also if the process dies.
    lock(&file).map_err(|error| io_failure(&error))?;
    let existing = read_limited(&mut file).map_err(|error| io_failure(&error))?;
    let (text, value) = change(&existing)?;
    if !text.is_empty() {
        append_all(&mut file, &text).map_err(|error| io_failure(&error))?;
    }
    Ok(value)
}

/// Locks a file; others hold it for moments only.
fn lock(file: &File) -> io::Result<()> {
    let end = Instant::now() + LONGEST_LOCK;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() >= end => {
                let message =
                    format!("another program has held it for {} s", LONGEST_LOCK.as_secs());
                return Err(io::Error::new(io::ErrorKind::WouldBlock, message));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Replaces a file as a whole: whoever reads it sees the old text or the new one.
///
/// # Errors
/// If the new text cannot be written beside it and moved into place; then the old file is as it was.
pub fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    replace_with(path, |w| w.write_all(text.as_bytes()))
}

/// The same for what is better written piece by piece.
///
/// # Errors
/// As for [`replace`].
pub fn replace_with(
    path: &Path,
    write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
) -> Result<(), Failure> {
    if is_special(path) {
        return write_into(path, write);
    }
    let target = behind_links(path)?;
    place(&target, write, |beside| std::fs::rename(beside, &target))
}

/// True for a device, a pipe or a socket: it can be written into, but nothing may be put in its place.
pub fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|about| !about.is_file() && !about.is_dir())
}

/// The file that a path leads to, which may be new.
fn behind_links(path: &Path) -> Result<PathBuf, Failure> {
    if !path.is_symlink() {
        return Ok(path.to_owned());
    }
    std::fs::canonicalize(path).map_err(|error| failure(path, "follow", &error))
}

fn write_into(
    path: &Path,
    write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
) -> Result<(), Failure> {
    let written = OpenOptions::new().write(true).open(path).and_then(|mut file| write(&mut file));
    written.map_err(|error| failure(path, "write", &error))
}

/// Makes a file as a whole, unless one of this name is there; false if it is. A device or pipe is written into.
///
/// # Errors
/// If the text cannot be written beside it and moved into place.
pub fn write_new(path: &Path, text: &str) -> Result<bool, Failure> {
    if is_special(path) {
        return write_into(path, |w| w.write_all(text.as_bytes())).map(|()| true);
    }
    let mut new = true;
    place(
        path,
        |w| w.write_all(text.as_bytes()),
        |beside| {
            // Unlike renaming, linking never replaces a file.
            match std::fs::hard_link(beside, path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => new = false,
                // Some file systems have no links; then the moment between these two lines is open.
                Err(_) if path.exists() => new = false,
                Err(_) => return std::fs::rename(beside, path),
                Ok(()) => {}
            }
            std::fs::remove_file(beside)
        },
    )?;
    Ok(new)
}

/// Writes beside a target and lets `put` move it there.
fn place(
    path: &Path,
    write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
    mut put: impl FnMut(&Path) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = Path::new(&beside);
    let written = File::create(beside).and_then(|file| {
        let mut file = io::BufWriter::new(file);
        write(&mut file)?;
        file.into_inner()?.sync_data()?;
        put(beside)
    });
    written.map_err(|error| {
        // The first error is the one to report.
        let _ = std::fs::remove_file(beside);
        failure(path, "write", &error)
    })
}

/// Finds out whether a file can be made here, or replaced, without touching what is there.
///
/// # Errors
/// If it cannot.
pub fn check_place(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        return Err(failure(path, "write", &io::ErrorKind::IsADirectory.into()));
    }
    if is_special(path) {
        return Ok(());
    }
    let target = behind_links(path)?;
    place(&target, |_| Ok(()), |beside| std::fs::remove_file(beside))
        .map_err(|failure| Failure { reasons: renamed(failure.reasons, path), ..failure })
}

/// The same reasons, of a path as it was given.
fn renamed(reasons: Vec<(String, Diagnostic)>, path: &Path) -> Vec<(String, Diagnostic)> {
    reasons.into_iter().map(|(_, reason)| (path.display().to_string(), reason)).collect()
}

/// Makes a folder and those above it, where they are not there yet.
///
/// # Errors
/// If it cannot be made.
pub fn make_folder(path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(path).map_err(|error| failure(path, "make", &error))
}

fn append_all(file: &mut File, text: &str) -> io::Result<()> {
    let before = file.metadata()?.len();
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
    if written.is_err() {
        // The first error is the one to report.
        let _ = file.set_len(before);
    }
    written
}

fn failure(path: &Path, verb: &str, error: &io::Error) -> Failure {
    let reason = Diagnostic::error("", format!("failed to {verb} it: {error}"));
    let reason = reason.help(match error.kind() {
        io::ErrorKind::InvalidData => "check with gzip -t; fetch or pack the file again",
        _ => "check the path and its permissions",
    });
    Failure::new(Code::Io, &path.display().to_string(), reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_appends_at_once_lose_and_tear_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    for line in 0..25 {
                        let text = format!("{thread} {line} {}\n", "x".repeat(5000));
                        append_locked(path, |existing| {
                            assert!(existing.is_empty() || existing.ends_with('\n'));
                            Ok((text, ()))
                        })
                        .unwrap();
                    }
                });
            }
        });
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 200);
        assert!(text.lines().all(|line| line.ends_with("xx") && line.len() > 5000));
    }

    #[test]
    fn a_refused_change_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        std::fs::write(&path, "before\n").unwrap();
        let refused: Result<(), Failure> = append_locked(&path, |_| {
            Err(Failure::new(Code::BadInput, "", Diagnostic::error("", "no")))
        });
        assert!(refused.is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before\n");
        assert_eq!(read_text(&folder.path().join("none")).unwrap_err().code, Code::Io);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_devices_stay_devices() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace(&link, "new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        let null = Path::new("/dev/null");
        replace(null, "text").unwrap();
        assert!(write_new(null, "text").unwrap());
        assert!(is_special(null));
        assert_eq!(append_locked(null, |_| Ok((String::new(), ()))).unwrap_err().code, Code::Io);
        let nowhere = folder.path().join("nowhere");
        std::os::unix::fs::symlink(folder.path().join("none"), &nowhere).unwrap();
        assert_eq!(replace(&nowhere, "x").unwrap_err().code, Code::Io);
    }
}
