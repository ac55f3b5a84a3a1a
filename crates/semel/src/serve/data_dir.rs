//! The data directory: private to its owner, and so is everything in it.

use crate::failure::Failure;
use semel_store_sqlite::directory;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const OTHERS: u32 = 0o077;

/// Makes the directory with mode 0700. One that is there already is its owner's business, but not silently.
pub fn prepare(directory: &Path) -> Result<(), Failure> {
    directory::make(directory).map_err(|error| {
        Failure::refused("data_dir", format!("cannot make the data directory {}: {error}", directory.display()))
    })?;
    let metadata = std::fs::metadata(directory).map_err(|error| unreadable(directory, &error))?;
    if metadata.mode() & OTHERS != 0 {
        tracing::warn!(directory = %directory.display(), mode = format!("{:o}", metadata.mode() & 0o777), "others can look into the data directory; chmod 700 it");
    }
    Ok(())
}

/// Writes a private file as a whole or not at all, replacing an older one.
pub fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    let cannot =
        |error: std::io::Error| Failure::refused("data_dir", format!("cannot write {}: {error}", path.display()));
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A temporary file has mode 0600 from its first moment on.
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(cannot)?;
    file.write_all(text.as_bytes()).map_err(cannot)?;
    file.as_file().sync_all().map_err(cannot)?;
    file.persist(path).map_err(|error| cannot(error.error))?;
    // What is encrypted with a key must not outlive it: the name is as durable as the contents.
    directory::sync(directory).map_err(cannot)
}

/// Reads a file that must be private.
pub fn read_private(path: &Path) -> Result<String, Failure> {
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if metadata.mode() & OTHERS != 0 {
        let message = format!("{} can be read by others (mode {:o})", path.display(), metadata.mode() & 0o777);
        return Err(Failure::refused("key_file_open", message).hint(format!("chmod 600 {}", path.display())));
    }
    std::fs::read_to_string(path).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::refused("data_dir", format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn what_is_made_is_private() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("a/b");
        prepare(&directory).unwrap();
        assert_eq!(mode(&directory), 0o700);
        let file = directory.join("f");
        write_private(&file, "one").unwrap();
        write_private(&file, "two").unwrap();
        assert_eq!((mode(&file), read_private(&file).unwrap()), (0o600, "two".to_owned()));
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("key");
        for bits in [0o640, 0o604, 0o660, 0o620] {
            std::fs::write(&file, "x").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(bits)).unwrap();
            let failure = read_private(&file).unwrap_err();
            assert!(failure.hint_text().unwrap().starts_with("chmod 600"), "{bits:o}");
        }
    }
}
