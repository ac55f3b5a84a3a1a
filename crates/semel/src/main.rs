//! The binary.

/// Requests are made on one thread and freed on another; the system's allocator takes a third of the time for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    semel::main()
}
