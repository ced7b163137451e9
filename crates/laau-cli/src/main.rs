//! The binary `laau`; everything is in the library.

fn main() -> std::process::ExitCode {
    laau_cli::main()
}
