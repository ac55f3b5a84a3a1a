//! The demo's voice: short lines on stderr, and a bar on a terminal.

use crate::output::{Paint, Shell, say};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

pub struct Narrator {
    paint: Paint,
    /// Silent for programs.
    silent: bool,
    moving: bool,
    bar: ProgressBar,
}

impl Narrator {
    pub fn new(shell: &Shell, deliveries: u32) -> Narrator {
        let bar = ProgressBar::with_draw_target(Some(u64::from(deliveries)), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("  {bar:40.green/dim} {pos}/{len} deliveries answered") {
            bar.set_style(style.progress_chars("━━─"));
        }
        Narrator { paint: shell.err, silent: shell.json, moving: shell.interactive && !shell.json, bar }
    }

    /// The bar appears when there is something to count.
    pub fn start_bar(&mut self) {
        if self.moving {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
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
