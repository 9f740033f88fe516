/*
 * edgewayctl's output: to a terminal or elsewhere, with colours or without. All text written to
 * stdout and stderr, whatever its origin, is cleaned (ctl_clean.h): it contains no control
 * characters except line feeds and tabs, and no colours except those of screen_ink. Repeated output
 * on a terminal is collected and then drawn over the previous one, together with the text for
 * stderr, as far as the screen has room; elsewhere the outputs follow one another. Colours are used
 * if the terminal has them (TERM neither unset nor "dumb") and the user wants them (NO_COLOR unset
 * or empty).
 *
 *	screen_open();
 *	printf("%sBAD%s\n", screen_ink(INK_BAD), screen_ink(INK_PLAIN));
 *
 *	screen_begin(&look);	// for repeated ones
 *	... printf ...
 *	rc = screen_end(&look);
 */
#ifndef EDGEWAY_SRC_CTL_CTL_SCREEN_H
#define EDGEWAY_SRC_CTL_CTL_SCREEN_H

#include <stdbool.h>

enum ink { INK_PLAIN, INK_GOOD, INK_NOTE, INK_BAD };

/* For one output. */
struct screen_look {
	int out, err; /* the terminal, while output to it is collected; -1: not collected */
};

/* Call once, before anything is written. */
void screen_open(void);
/* Returns whether the output is a terminal whose cursor can be moved. */
bool screen_is_terminal(void);
/* Clears the whole terminal. */
void screen_clear(void);
/* The text that switches to this ink, "" without colours. Takes no room on the screen. */
const char *screen_ink(enum ink ink);
/* The ink for a daemon's word for a state: "ejected", "dead". */
enum ink screen_ink_of(const char *word);
void screen_begin(struct screen_look *look);
/* 0, or -errno: it cannot be written. */
int screen_end(struct screen_look *look);
/* Waits for seconds, or until the terminal changes its size. */
void screen_pause(unsigned seconds);

#endif
