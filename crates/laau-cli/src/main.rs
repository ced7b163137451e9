//! The binary `laau`; everything is in the library.

fn main() -> std::process::ExitCode {
    laau_cli::run(std::env::args_os()).into()
}
