//! The binary.

fn main() -> std::process::ExitCode {
    semel::main()
}
