//! `terahaul completions` and `terahaul man`: what an installation has beside the program.

use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clap::{Arg, Command, CommandFactory, ValueHint};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::{Cli, CompletionsArgs, ManArgs};
use crate::exit::{Exit, Failure};
use crate::output::{Event, Output, PathText, printable_path};

pub fn completions(args: &CompletionsArgs, output: &Output) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut offered(), "terahaul", &mut script);
    let mut text = String::from_utf8_lossy(&script).trim_end().to_owned();
    if args.shell == Shell::Bash {
        text = with_files(&text);
    }
    let result = serde_json::json!({ "shell": args.shell.to_string(), "text": text });
    output.emit(&Event::Done { command: "completions", result, text });
    Ok(Exit::Ok)
}

/// The command line as shells offer it: with no command that nobody types.
fn offered() -> Command {
    let whole = Cli::command();
    let shown = whole.get_subcommands().filter(|below| !below.is_hide_set()).cloned();
    let command = Command::new("terahaul").version(env!("CARGO_PKG_VERSION"));
    hinted_below(command.args(whole.get_arguments().cloned()).subcommands(shown))
}

fn hinted_below(command: Command) -> Command {
    command.mut_args(hinted).mut_subcommands(hinted_below)
}

/// Where it is not said that a value is a file's name it is none, and a shell is not to offer files for it, or whatever else it has. A
/// command's own arguments may be anything.
fn hinted(arg: Arg) -> Arg {
    let is_open = arg.get_value_hint() == ValueHint::Unknown && arg.get_possible_values().is_empty();
    if is_open && arg.get_action().takes_values() && !arg.is_last_set() {
        arg.value_hint(ValueHint::Other)
    } else {
        arg
    }
}

/// The library's answers an empty word with all flags, and bash offers files only where there is no answer.
fn with_files(script: &str) -> String {
    let (function, registered) = script.split_at(script.rfind("\nif ").unwrap_or(script.len()));
    format!("{function}\n{WITHOUT_FLAGS}{}", registered.replace("-F _terahaul ", "-F _terahaul_or_files "))
}

const WITHOUT_FLAGS: &str = r#"_terahaul_or_files() {
    _terahaul "$@"
    [[ $2 == -* ]] && return
    local word words=()
    for word in ${COMPREPLY[@]+"${COMPREPLY[@]}"}; do
        [[ $word == -* ]] || words+=("$word")
    done
    COMPREPLY=(${words[@]+"${words[@]}"})
}
"#;

pub fn man(args: &ManArgs, output: &Output) -> Result<Exit, Failure> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let written = fs::create_dir_all(&args.dir).and_then(|()| write_pages(&command, &args.dir));
    written.map_err(|error| Failure::place(&args.dir, &error))?;
    let text = format!("the manual is in {}: terahaul(1) names all pages", printable_path(&args.dir));
    let mut result = serde_json::json!({});
    PathText::from(args.dir.as_os_str().as_bytes()).put("dir", &mut result);
    output.emit(&Event::Done { command: "man", result, text });
    Ok(Exit::Ok)
}

/// A page for a command that is built, and one for each below it.
fn write_pages(command: &Command, dir: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    fs::write(dir.join(format!("{name}.1")), page(command, name)?)?;
    command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
        .try_for_each(|below| write_pages(below, dir))
}

fn page(command: &Command, name: &str) -> io::Result<String> {
    let usage = command.clone().render_usage().to_string();
    let man = Man::new(command.clone().mut_args(with_aliases))
        .title(name.to_uppercase())
        .source(concat!("Terahaul ", env!("CARGO_PKG_VERSION")))
        .manual("Terahaul");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    // The library's own has flags without their values, and takes what may be given several times for one.
    writeln!(page, ".SH SYNOPSIS\n.nf\n{}\n.fi", as_it_stands(&synopsis(&usage)))?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().next().is_some() {
        man.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    // The library would fill lines and justify them, which examples do not bear.
    if let Some(notes) = command.get_after_help() {
        writeln!(page, ".SH NOTES\n.nf\n{}\n.fi", as_it_stands(&notes.to_string()))?;
    }
    // Without UTF-8 in the locale, roff has no such character. A line that began with dots would be a request.
    Ok(String::from_utf8(page).map_err(io::Error::other)?.replace('…', "\\&..."))
}

/// How a command is used, a line for each way.
fn synopsis(usage: &str) -> String {
    let lines = usage.trim_start_matches("Usage:").lines().map(str::trim);
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// A flag with its other names, which the library leaves out.
fn with_aliases(arg: Arg) -> Arg {
    let short = arg.get_visible_short_aliases().unwrap_or_default().into_iter();
    let long = arg.get_visible_aliases().unwrap_or_default().into_iter();
    let names: Vec<_> =
        short.map(|alias| format!("-{alias}")).chain(long.map(|alias| format!("--{alias}"))).collect();
    if names.is_empty() {
        return arg;
    }
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    arg.help(format!("{help} (also {})", names.join(", ")))
}

/// Text in which roff is to see no requests.
fn as_it_stands(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    let line = |line: &str| format!("{}{line}", if line.starts_with('.') { "\\&" } else { "" });
    escaped.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(shell: Shell) -> String {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut offered(), "terahaul", &mut script);
        String::from_utf8(script).unwrap()
    }

    /// What zsh does by itself for a command named 'terahaul' may be to offer the names of commands.
    #[test]
    fn zsh_offers_files_where_files_are_meant_and_nothing_where_they_are_not() {
        let script = script(Shell::Zsh);
        let files = ["'*::paths", "--receipt=[", "--files-from=[", "--exclude-from=[", "--data=[", "'::dir"];
        for meant in files {
            let lines = || script.lines().filter(|line| line.contains(meant));
            assert!(lines().next().is_some() && lines().all(|line| line.contains(":_files")), "{meant}");
        }
        let open: Vec<_> = script.lines().filter(|line| line.contains(":_default'")).collect();
        assert!(open.iter().all(|line| line.contains("command")), "{open:?}");
    }

    #[test]
    fn shells_offer_words_where_words_are_meant_and_no_command_that_nobody_types() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for word in ["tcp+udp", "background", "very-lossy", "rsync-ssh"] {
                assert!(script.contains(word), "{shell} {word}");
            }
            let far = ["terahaul,far)", "'far:", "(far)", "-a \"far\"", "cp far "];
            let is_far = |line: &&str| far.iter().any(|far| line.contains(far));
            assert_eq!(script.lines().find(is_far), None, "{shell}");
            assert!(script.contains("version"), "{shell}");
        }
    }

    #[test]
    fn every_command_has_a_page_with_its_examples_as_they_are_typed() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Cli::command();
        command.build();
        write_pages(&command, dir.path()).unwrap();
        let page = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert!(page("terahaul.1").contains("terahaul\\-cp(1)"));
        assert!(page("terahaul-cp.1").contains("\n  terahaul cp \\-a \\-\\-delete a/ host:b/\n"));
        assert!(page("terahaul-token-create.1").contains("quota"));
        assert!(page("terahaul-send.1").contains("\nterahaul send [OPTIONS] <PATH>...\n"));
        assert!(page("terahaul-send.1").contains("\\-\\-max\\-rate"), "the text of others names it");
        assert!(page("terahaul-cp.1").contains("(also \\-R)"), "{}", page("terahaul-cp.1"));
        assert!(!dir.path().join("terahaul-far.1").exists(), "ssh starts it, nobody types it");
        for page in fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()) {
            let text = fs::read_to_string(&page).unwrap();
            assert!(
                text.is_ascii() && !text.lines().any(|line| line.starts_with("...")),
                "{}",
                page.display()
            );
        }
        assert_eq!(as_it_stands(".x\n'a\\b'"), "\\&.x\n\\(aqa\\eb\\(aq");
    }
}
