/*
 * What edgewayctl writes on: a terminal or something else, with colours or without. Whatever is
 * written to stdout and stderr, by whom it may have been said, is cleaned there (ctl_clean.h): no
 * control character but line feeds and tabs comes out, and no colour but by screen_ink. A look that
 * is repeated on a terminal is gathered and then put over the one before it, with what stderr had
 * to say, as much of it as there is room for; elsewhere looks simply follow one another. Colours
 * are for a terminal that knows them (TERM neither unset nor "dumb") whose user wants them
 * (NO_COLOR unset or empty).
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

/* Of one look. */
struct screen_look {
	int out, err; /* the terminal, while what is written to it is gathered; -1: it is not */
};

/* Once, before anything is written. */
void screen_open(void);
/* Is it one, and may the cursor be moved on it? */
bool screen_is_terminal(void);
/* A whole one that nothing is written on. */
void screen_clear(void);
/* What turns the ink on once it is written, "" where there are no colours. Takes no room. */
const char *screen_ink(enum ink ink);
/* That of a word that daemons use for a state: "ejected", "dead". */
enum ink screen_ink_of(const char *word);
void screen_begin(struct screen_look *look);
/* 0, or -errno: it cannot be written. */
int screen_end(struct screen_look *look);
/* Seconds, or less when the terminal has got another size. */
void screen_pause(unsigned seconds);

#endif
