#include "src/ctl/ctl_screen.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/core/buf.h"
#include "src/ctl/ctl_clean.h"

enum { LOOK_MOST = 256 << 20, READ_BYTES = 65536 };

/* Set once: while output is collected, stdout is not the terminal. */
static struct {
	bool terminal, colours;
} screen;

/* --- cleaning of output --------------------------------------------------------------------- */

enum { REST_MOST = 3 }; /* for clean_add */

/* The descriptor behind a FILE; `rest` is the beginning of a character. */
struct way {
	int fd;
	char rest[REST_MOST];
	size_t n_rest;
};

static struct way to_stdout = {.fd = STDOUT_FILENO}, to_stderr = {.fd = STDERR_FILENO};

static const char *
ink_of(char kind)
{
	static const char *const inks[] = {[INK_PLAIN] = "\033[0m",
		[INK_GOOD] = "\033[32m",
		[INK_NOTE] = "\033[33m",
		[INK_BAD] = "\033[31m"};

	return kind >= '0' && kind < '0' + (int)ARRAY_LEN(inks) ? inks[kind - '0'] : "";
}

static int
write_out(int fd, struct buf *out)
{
	while (buf_len(out) > 0) {
		ssize_t n = buf_write(out, fd);

		if (n < 0 && n != -EINTR)
			return (int)n;
	}
	return 0;
}

static ssize_t
write_clean(void *arg, const char *bytes, size_t n)
{
	struct way *w = arg;
	auto_buf struct buf in, out;
	int rc;

	buf_init(&in, BUF_UNLIMITED);
	buf_init(&out, BUF_UNLIMITED);
	buf_add(&in, w->rest, w->n_rest);
	buf_add(&in, bytes, n);
	buf_consume(&in,
		clean_add(&out, buf_at(&in), buf_len(&in), false, screen.colours ? ink_of : NULL));
	w->n_rest = buf_len(&in);
	assert(w->n_rest <= REST_MOST);
	memcpy(w->rest, buf_at(&in), w->n_rest);
	rc = write_out(w->fd, &out);
	if (rc == 0)
		return (ssize_t)n;
	errno = -rc;
	return 0;
}

/* Lasts for the life of the process. */
static void
ctl_screen_lead(FILE **stream, struct way *w, int mode)
{
	FILE *f = fopencookie(w, "w", (cookie_io_functions_t){.write = write_clean});

	if (f == NULL)
		abort();
	setvbuf(f, NULL, mode, BUFSIZ);
	*stream = f;
}

/* --- a terminal? ---------------------------------------------------------------------------- */

/* Does nothing, but interrupts a pause. */
static void
on_resized(int sig)
{
	(void)sig;
}

void
screen_open(void)
{
	const struct sigaction resized = {.sa_handler = on_resized};
	const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");

	screen.terminal = isatty(STDOUT_FILENO) && term != NULL && term[0] != '\0' &&
		strcmp(term, "dumb") != 0;
	screen.colours = screen.terminal && (no_color == NULL || no_color[0] == '\0');
	ctl_screen_lead(&stdout, &to_stdout, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF);
	ctl_screen_lead(&stderr, &to_stderr, _IOLBF);
	sigaction(SIGWINCH, &resized, NULL);
}

bool
screen_is_terminal(void)
{
	return screen.terminal;
}

const char *
screen_ink(enum ink ink)
{
	static const char *const marks[] = {[INK_PLAIN] = "\xff"
							  "0",
		[INK_GOOD] = "\xff"
			     "1",
		[INK_NOTE] = "\xff"
			     "2",
		[INK_BAD] = "\xff"
			    "3"};

	return screen.colours ? marks[ink] : "";
}

enum ink
screen_ink_of(const char *word)
{
	static const char *const bad[] = {"ejected", "dead", "loop", "away", "ill", "refused",
		"error", "not found"},
				 *const doubtful[] = {"warn", "leaving", "older", "unknown"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (strcmp(word, bad[i]) == 0)
			return INK_BAD;
	}
	for (size_t i = 0; i < ARRAY_LEN(doubtful); i++) {
		if (strcmp(word, doubtful[i]) == 0)
			return INK_NOTE;
	}
	return INK_PLAIN;
}

/* --- repeated output ------------------------------------------------------------------------ */

/* Returns a copy of the previous descriptor; -1: nothing was changed. */
static int
divert_to(int to, int fd)
{
	int before = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (before >= 0)
		dup2(to, fd);
	return before;
}

static void
put_back(int *before, int fd)
{
	if (*before < 0)
		return;
	dup2(*before, fd);
	close(take_fd(before));
}

void
screen_begin(struct screen_look *look)
{
	auto_fd int gathered = -1;

	look->out = look->err = -1;
	fflush(stderr);
	if (!screen.terminal || fflush(stdout) != 0 ||
		(gathered = memfd_create("look", MFD_CLOEXEC)) < 0)
		return;
	look->out = divert_to(gathered, STDOUT_FILENO);
	if (isatty(STDERR_FILENO))
		look->err = divert_to(gathered, STDERR_FILENO);
}

/* Bytes that take no room on a terminal: ink, and the later bytes of a character. */
static size_t
ctl_screen_weightless(const char *text)
{
	if (text[0] == '\033')
		return strcspn(text, "m") + 1;
	return ((unsigned char)text[0] & 0xc0) == 0x80 ? 1 : 0;
}

static void
add_line(struct buf *out, const char *line, unsigned columns)
{
	unsigned used = 0;

	while (*line != '\0' && *line != '\n') {
		size_t n = ctl_screen_weightless(line);

		if (n == 0 && used++ == columns)
			break;
		n = strnlen(line, n > 0 ? n : 1);
		buf_add(out, line, n);
		line += n;
	}
	buf_printf(out, "%s\033[K\n", screen.colours ? ink_of('0' + INK_PLAIN) : "");
}

/* The last row stays free for the cursor. */
static void
ctl_screen_compose(struct buf *out, const char *text, const struct winsize *size)
{
	unsigned left = size->ws_row > 1 ? size->ws_row - 1U : 1;

	buf_adds(out, "\033[H");
	for (; *text != '\0' && left > 0; left--) {
		const char *end = strchr(text, '\n');

		add_line(out, text, size->ws_col);
		text = end != NULL ? end + 1 : text + strlen(text);
	}
	buf_adds(out, "\033[J");
}

int
screen_end(struct screen_look *look)
{
	struct winsize size = {0};
	auto_buf struct buf text, shown;
	auto_fd int gathered = -1;
	ssize_t n;

	buf_init(&text, LOOK_MOST);
	buf_init(&shown, BUF_UNLIMITED);
	fflush(stderr);
	if (fflush(stdout) != 0 || ferror(stdout))
		return errno != 0 ? -errno : -EIO;
	if (look->out < 0)
		return 0;
	gathered = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
	put_back(&look->out, STDOUT_FILENO);
	put_back(&look->err, STDERR_FILENO);
	lseek(gathered, 0, SEEK_SET);
	while ((n = buf_read(&text, gathered, READ_BYTES)) > 0)
		;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_row == 0 || size.ws_col == 0)
		size = (struct winsize){.ws_row = 24, .ws_col = 80};
	ctl_screen_compose(&shown, buf_str(&text), &size);
	return write_out(STDOUT_FILENO, &shown);
}

void
screen_clear(void)
{
	auto_buf struct buf all;

	buf_init(&all, BUF_UNLIMITED);
	buf_adds(&all, "\033[2J");
	write_out(STDOUT_FILENO, &all);
}

void
screen_pause(unsigned seconds)
{
	const struct timespec pause = {.tv_sec = seconds};

	nanosleep(&pause, NULL);
}
