//! The binary.

/// Requests are made on one thread and freed on another; the system's allocator takes a third of the time for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    // The allocator takes memory in large pieces and uses them bit by bit. As huge pages they count whole from their
    // first byte, and are cleared whole: three times the memory under load. Where this is refused, nothing is lost.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    semel::main()
}
