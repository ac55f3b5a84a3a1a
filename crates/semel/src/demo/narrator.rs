//! The demo's voice: short lines on stderr, and a bar on a terminal.

use crate::output::{Paint, Shell, say};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

pub struct Narrator {
    paint: Paint,
    /// Silent for programs.
    silent: bool,
    bar: ProgressBar,
}

impl Narrator {
    pub fn new(shell: &Shell, deliveries: u32) -> Narrator {
        let target = if shell.interactive && !shell.json { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(u64::from(deliveries)), target);
        if let Ok(style) = ProgressStyle::with_template("  {bar:40.green/dim} {pos}/{len} deliveries answered") {
            bar.set_style(style.progress_chars("━━─"));
        }
        Narrator { paint: shell.err, silent: shell.json, bar }
    }

    pub fn title(&self, text: &str) {
        self.line("");
        self.line(&self.paint.bold(text));
        self.line("");
    }

    pub fn tell(&mut self, who: &str, what: &str) {
        self.line(&format!("  {} {what}", self.paint.cyan(&format!("{who:<9}"))));
    }

    pub fn answered(&mut self, count: usize) {
        self.bar.set_position(count as u64);
    }

    pub fn end(&mut self) {
        self.bar.finish_and_clear();
        self.line("");
    }

    fn line(&self, text: &str) {
        if !self.silent {
            self.bar.suspend(|| say(text));
        }
    }
}
