//! The one place with `unsafe`: a VFS of SQLite that tells a [`Disk`] of each call and hands it on to the system's.
//!
//! Why it is sound: SQLite gives each open file `szOsFile` zeroed bytes, which it never moves, and calls its methods only
//! between a successful `xOpen` and `xClose`. The bytes hold a [`Handle`], which begins with the method table as
//! SQLite demands, and behind it (at a multiple of 8, which is all that both need) the file of the system's VFS. Disks and method tables live for ever. A method that the
//! system's VFS leaves out is not called, because the tables here promise no more than version 2, and the system's is
//! at least that (asserted when a disk is registered).
#![allow(unsafe_code)]

use super::{Disk, Kind, Op};
use rusqlite::ffi;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

#[repr(C)]
struct Handle {
    methods: *const ffi::sqlite3_io_methods,
    disk: &'static Disk,
    /// Leaked with the file's name; null for files without one, which are nobody's business.
    name: *mut String,
    /// The system's VFS syncs the directory with the first sync of a log that it may have made.
    directory: AtomicBool,
}

/// What the registered VFS carries.
struct Carried {
    disk: &'static Disk,
    system: *mut ffi::sqlite3_vfs,
}

pub fn register(disk: &'static Disk) {
    let name = CString::new(disk.name()).expect("no zero byte");
    // SAFETY: null asks for the default VFS, which lives as long as the process.
    let system = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
    assert!(!system.is_null(), "SQLite has no files here");
    // SAFETY: checked not to be null; SQLite does not change it.
    let model = unsafe { *system };
    let size = size_of::<Handle>() + usize::try_from(model.szOsFile).expect("a size");
    let carried = Box::leak(Box::new(Carried { disk, system }));
    let vfs = Box::leak(Box::new(ffi::sqlite3_vfs {
        iVersion: 1,
        szOsFile: c_int::try_from(size).expect("a size"),
        pNext: ptr::null_mut(),
        zName: name.into_raw(),
        pAppData: ptr::from_mut(carried).cast(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: Some(last_error),
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        ..model
    }));
    // SAFETY: the VFS is leaked, so it outlives every use; it is not made the default.
    let code = unsafe { ffi::sqlite3_vfs_register(vfs, 0) };
    assert_eq!(code, ffi::SQLITE_OK);
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    // No memory-mapped files: they would be written behind the disk's back.
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shared_map),
    xShmLock: Some(shared_lock),
    xShmBarrier: Some(shared_barrier),
    xShmUnmap: Some(shared_unmap),
    xFetch: None,
    xUnfetch: None,
};

type File = *mut ffi::sqlite3_file;
type Vfs = *mut ffi::sqlite3_vfs;

/// SAFETY of all below: `vfs` and `file` are the ones registered and opened here, as SQLite guarantees.
unsafe fn carried(vfs: Vfs) -> &'static Carried {
    unsafe { &*(*vfs).pAppData.cast::<Carried>() }
}

unsafe fn handle(file: File) -> &'static Handle {
    unsafe { &*file.cast::<Handle>() }
}

/// The system's file, behind the handle.
unsafe fn inner(file: File) -> File {
    unsafe { file.cast::<u8>().add(size_of::<Handle>()).cast() }
}

/// Calls a method of the system's file; every one that is used here is there.
macro_rules! system {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        let file = inner($file);
        ((*(*file).pMethods).$method.expect("a method of the system's files"))(file $(, $argument)*)
    }};
}

impl Handle {
    fn name(&self) -> Option<String> {
        // SAFETY: made by `open` from a box, freed by `close`.
        unsafe { self.name.as_ref() }.cloned()
    }

    fn log(&self, op: impl FnOnce(String) -> Op) {
        if let Some(name) = self.name() {
            self.disk.log(op(name));
        }
    }
}

fn short(name: *const c_char) -> Option<String> {
    if name.is_null() {
        return None;
    }
    // SAFETY: SQLite passes texts that end with a zero.
    let path = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    Some(path.rsplit('/').next().unwrap_or_default().to_owned())
}

unsafe extern "C" fn open(vfs: Vfs, name: ffi::sqlite3_filename, file: File, flags: c_int, out: *mut c_int) -> c_int {
    unsafe {
        let Carried { disk, system } = carried(vfs);
        // Without methods SQLite does not close what was never open.
        (*file).pMethods = ptr::null();
        if disk.refuses(Kind::Open).is_some() {
            return ffi::SQLITE_CANTOPEN;
        }
        let code = ((**system).xOpen.expect("xOpen"))(*system, name, inner(file), flags, out);
        if code == ffi::SQLITE_OK {
            assert!((*(*inner(file)).pMethods).iVersion >= 2, "files without shared memory");
            let name = short(name).map_or(ptr::null_mut(), |name| Box::into_raw(Box::new(name)));
            let log = flags & (ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_MAIN_JOURNAL) != 0;
            let directory = AtomicBool::new(log && flags & ffi::SQLITE_OPEN_CREATE != 0);
            file.cast::<Handle>().write(Handle { methods: &METHODS, disk, name, directory });
        }
        code
    }
}

unsafe extern "C" fn delete(vfs: Vfs, name: *const c_char, sync: c_int) -> c_int {
    unsafe {
        let Carried { disk, system } = carried(vfs);
        if disk.refuses(Kind::Delete).is_some() {
            return ffi::SQLITE_IOERR_DELETE;
        }
        let code = ((**system).xDelete.expect("xDelete"))(*system, name, sync);
        if let (ffi::SQLITE_OK, Some(file)) = (code, short(name)) {
            disk.log(Op::Delete { file, synced: sync != 0 });
        }
        code
    }
}

unsafe extern "C" fn access(vfs: Vfs, name: *const c_char, flags: c_int, out: *mut c_int) -> c_int {
    unsafe {
        let system = carried(vfs).system;
        ((*system).xAccess.expect("xAccess"))(system, name, flags, out)
    }
}

unsafe extern "C" fn full_pathname(vfs: Vfs, name: *const c_char, size: c_int, out: *mut c_char) -> c_int {
    unsafe {
        let system = carried(vfs).system;
        ((*system).xFullPathname.expect("xFullPathname"))(system, name, size, out)
    }
}

unsafe extern "C" fn randomness(vfs: Vfs, size: c_int, out: *mut c_char) -> c_int {
    unsafe {
        let system = carried(vfs).system;
        ((*system).xRandomness.expect("xRandomness"))(system, size, out)
    }
}

unsafe extern "C" fn sleep(vfs: Vfs, micros: c_int) -> c_int {
    unsafe {
        let system = carried(vfs).system;
        ((*system).xSleep.expect("xSleep"))(system, micros)
    }
}

unsafe extern "C" fn current_time(vfs: Vfs, out: *mut f64) -> c_int {
    unsafe {
        let system = carried(vfs).system;
        ((*system).xCurrentTime.expect("xCurrentTime"))(system, out)
    }
}

unsafe extern "C" fn last_error(vfs: Vfs, size: c_int, out: *mut c_char) -> c_int {
    unsafe {
        let system = carried(vfs).system;
        ((*system).xGetLastError.expect("xGetLastError"))(system, size, out)
    }
}

unsafe extern "C" fn close(file: File) -> c_int {
    unsafe {
        let code = system!(file, xClose);
        let name = handle(file).name;
        if !name.is_null() {
            drop(Box::from_raw(name));
        }
        code
    }
}

unsafe extern "C" fn read(file: File, bytes: *mut c_void, size: c_int, at: ffi::sqlite3_int64) -> c_int {
    unsafe {
        if handle(file).disk.refuses(Kind::Read).is_some() {
            return ffi::SQLITE_IOERR_READ;
        }
        system!(file, xRead, bytes, size, at)
    }
}

unsafe extern "C" fn write(file: File, bytes: *const c_void, size: c_int, at: ffi::sqlite3_int64) -> c_int {
    unsafe {
        let handle = handle(file);
        match handle.disk.refuses(Kind::Write) {
            Some(true) => return ffi::SQLITE_FULL,
            Some(false) => return ffi::SQLITE_IOERR_WRITE,
            None => {}
        }
        let code = system!(file, xWrite, bytes, size, at);
        if code == ffi::SQLITE_OK {
            let bytes = std::slice::from_raw_parts(bytes.cast::<u8>(), usize::try_from(size).expect("a size")).to_vec();
            handle.log(|file| Op::Write { file, at: u64::try_from(at).expect("an offset"), bytes });
        }
        code
    }
}

unsafe extern "C" fn truncate(file: File, size: ffi::sqlite3_int64) -> c_int {
    unsafe {
        let handle = handle(file);
        if handle.disk.refuses(Kind::Truncate).is_some() {
            return ffi::SQLITE_IOERR_TRUNCATE;
        }
        let code = system!(file, xTruncate, size);
        if code == ffi::SQLITE_OK {
            handle.log(|file| Op::Truncate { file, size: u64::try_from(size).expect("a size") });
        }
        code
    }
}

unsafe extern "C" fn sync(file: File, flags: c_int) -> c_int {
    unsafe {
        let handle = handle(file);
        if handle.disk.refuses(Kind::Sync).is_some() {
            return ffi::SQLITE_IOERR_FSYNC;
        }
        // What another thread writes while this one syncs may or may not be covered: it is not counted.
        let before = handle.disk.position();
        let code = system!(file, xSync, flags);
        if code == ffi::SQLITE_OK {
            let directory = handle.directory.swap(false, Ordering::SeqCst);
            handle.log(|file| Op::Sync { file, before, directory });
        }
        code
    }
}

unsafe extern "C" fn file_size(file: File, out: *mut ffi::sqlite3_int64) -> c_int {
    unsafe {
        if handle(file).disk.refuses(Kind::Size).is_some() {
            return ffi::SQLITE_IOERR_FSTAT;
        }
        system!(file, xFileSize, out)
    }
}

unsafe extern "C" fn lock(file: File, level: c_int) -> c_int {
    unsafe {
        if handle(file).disk.refuses(Kind::Lock).is_some() {
            return ffi::SQLITE_IOERR_LOCK;
        }
        system!(file, xLock, level)
    }
}

unsafe extern "C" fn unlock(file: File, level: c_int) -> c_int {
    unsafe { system!(file, xUnlock, level) }
}

unsafe extern "C" fn check_reserved_lock(file: File, out: *mut c_int) -> c_int {
    unsafe { system!(file, xCheckReservedLock, out) }
}

unsafe extern "C" fn file_control(file: File, op: c_int, argument: *mut c_void) -> c_int {
    unsafe { system!(file, xFileControl, op, argument) }
}

unsafe extern "C" fn sector_size(file: File) -> c_int {
    unsafe { system!(file, xSectorSize) }
}

unsafe extern "C" fn device_characteristics(file: File) -> c_int {
    unsafe { system!(file, xDeviceCharacteristics) }
}

unsafe extern "C" fn shared_map(file: File, page: c_int, size: c_int, extend: c_int, out: *mut *mut c_void) -> c_int {
    unsafe {
        match handle(file).disk.refuses(Kind::SharedMap) {
            Some(true) => return ffi::SQLITE_IOERR_SHMSIZE,
            Some(false) => return ffi::SQLITE_IOERR_SHMMAP,
            None => {}
        }
        system!(file, xShmMap, page, size, extend, out)
    }
}

unsafe extern "C" fn shared_lock(file: File, offset: c_int, count: c_int, flags: c_int) -> c_int {
    unsafe {
        // Letting go of a lock cannot fail, and SQLite does not ask.
        if flags & ffi::SQLITE_SHM_LOCK != 0 && handle(file).disk.refuses(Kind::SharedLock).is_some() {
            return ffi::SQLITE_IOERR_SHMLOCK;
        }
        system!(file, xShmLock, offset, count, flags)
    }
}

unsafe extern "C" fn shared_barrier(file: File) {
    unsafe { system!(file, xShmBarrier) }
}

unsafe extern "C" fn shared_unmap(file: File, delete: c_int) -> c_int {
    unsafe { system!(file, xShmUnmap, delete) }
}
