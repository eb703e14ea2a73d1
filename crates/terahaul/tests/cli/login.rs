//! Asking for a token at a terminal, where shells and signals have their say.

use crate::rig::{Depot, Ran, Terminal, terahaul, wait_until};

const QUESTION: &str = "not shown): ";

fn login(depot: &Depot) -> String {
    format!("{} login '{}'", env!("CARGO_BIN_EXE_terahaul"), depot.url)
}

/// A shell with jobs, and whether it has logged in without the token being seen.
struct Shell<'a> {
    terminal: Terminal,
    depot: &'a Depot,
}

impl<'a> Shell<'a> {
    fn start(depot: &'a Depot) -> Self {
        let line = "env TERM=dumb bash --norc --noprofile -i";
        Self { terminal: Terminal::start(depot.home.path(), line), depot }
    }

    fn type_until(&mut self, typed: &str, awaited: &str) {
        self.terminal.forget();
        self.terminal.type_in(typed);
        self.terminal.read_until(awaited);
    }

    fn answer(mut self) {
        let token = &self.depot.token;
        self.type_until(&format!("{token}\r"), "logged in");
        self.terminal.type_in("exit\r");
        let seen = self.terminal.read_to_end();
        assert!(!seen.contains(token), "{seen:?}");
    }
}

/// It was not asked again, and the token was shown: the shell had put its own modes back.
#[test]
fn a_token_is_not_shown_after_the_question_was_stopped_and_continued() {
    let depot = Depot::start();
    let mut shell = Shell::start(&depot);
    shell.type_until(&format!("{}\r", login(&depot)), QUESTION);
    shell.type_until("\x1a", "Stopped");
    shell.type_until("fg\r", QUESTION);
    shell.answer();
}

/// It took the modes for its own in which the shell reads a line, and Enter did nothing.
#[test]
fn a_question_that_was_begun_in_the_background_can_be_answered() {
    let depot = Depot::start();
    let mut shell = Shell::start(&depot);
    shell.type_until(&format!("{} &\r", login(&depot)), "\n");
    // The shell is asked: its first thread stops before the process is stopped, and the shell continues only what it knows to be.
    wait_until("it waits to be brought to the front", || {
        // What is typed is seen, too, and is not to look like what is written.
        shell.type_until("jobs; echo al''l\r", "\nall");
        shell.terminal.seen.contains("Stopped")
    });
    shell.type_until("fg\r", QUESTION);
    shell.answer();
}

/// The terminal showed nothing any more.
#[test]
fn a_terminal_echoes_again_once_the_question_was_quit() {
    let depot = Depot::start();
    // The shell hears the signal, too.
    let line = format!("trap : QUIT; {}; echo code=$?; stty -a", login(&depot));
    let mut terminal = Terminal::start(depot.home.path(), &line);
    terminal.read_until(QUESTION);
    terminal.type_in("\x1c");
    let seen = terminal.read_to_end();
    assert!(seen.contains("code=130") && seen.contains(" echo ") && !seen.contains("-echo "), "{seen:?}");
}

/// It was told to give the line otherwise, which a token cannot be.
#[test]
fn a_token_that_does_not_come_from_stdin_is_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let mut command = terahaul(home.path());
    command.args(["login", "https://127.0.0.1:1"]);
    let ran = Ran::of(command);
    assert!(ran.code == 2 && ran.stderr.contains("no token came"), "{}", ran.stderr);
}
