//! Directories: private, and durable. A file or directory is safe from a power cut only when the directory that names it
//! has been synced, however often the file itself was.

use std::fs::{DirBuilder, File};
use std::io;
use std::path::{Path, PathBuf};

/// Makes the directory, and those above it, with mode 0700; returns when they are durable.
pub fn make(directory: &Path) -> io::Result<()> {
    let naming = naming_what_is_missing(directory);
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)?;
    naming.iter().try_for_each(|above| sync(above))
}

/// Makes durable what was made, renamed or removed in the directory.
pub fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// The directories in which the missing ones will stand, the lowest first.
fn naming_what_is_missing(directory: &Path) -> Vec<PathBuf> {
    let missing = directory.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
    let above = missing.filter_map(Path::parent);
    above.map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path }.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directory_that_gets_a_new_entry_is_synced() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        assert_eq!(naming_what_is_missing(&path("a/b/c")), [path("a/b"), path("a"), base.path().to_owned()]);
        make(&path("a/b/c")).unwrap();
        assert_eq!(naming_what_is_missing(&path("a/b/c")), Vec::<PathBuf>::new());
        assert_eq!(naming_what_is_missing(&path("a/b/d")), [path("a/b")]);
        assert_eq!(naming_what_is_missing(Path::new("not-there")), [Path::new(".")]);
        sync(&path("a")).unwrap();
        assert!(sync(&path("none")).is_err());
    }
}
