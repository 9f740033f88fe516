/*
 * Destroying a context. libwebsockets 4.1 closes the descriptor of its event pipe at once, and
 * again when libuv has closed the handle, one turn of the loop later. A descriptor opened in
 * between may have the same number and would be closed under its owner. So at creation we record
 * which descriptors are libwebsockets' own, and fill their numbers with a placeholder once they are
 * closed.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/http/ws_lws.h"

enum { DESTROY_TURNS = 8 };

static bool
is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

void
ws_mark_fds(bool open[WS_FDS_SEEN])
{
	int fd;

	for (fd = 0; fd < WS_FDS_SEEN; fd++)
		open[fd] = is_open(fd);
}

void
ws_note_fds(struct ws *ws, const bool before[WS_FDS_SEEN])
{
	int fd;

	for (fd = 0; fd < WS_FDS_SEEN && ws->fd_count < WS_FDS_OWN; fd++) {
		if (!before[fd] && is_open(fd))
			ws->fds[ws->fd_count++] = fd;
	}
}

/* Fills closed numbers with the placeholder, and keeps only those in the list. */
static void
hold_places(struct ws *ws, int placeholder)
{
	size_t i, held = 0;

	for (i = 0; i < ws->fd_count; i++) {
		if (!is_open(ws->fds[i]) && dup3(placeholder, ws->fds[i], O_CLOEXEC) >= 0)
			ws->fds[held++] = ws->fds[i];
	}
	ws->fd_count = held;
}

static void
free_places(const struct ws *ws, int placeholder)
{
	struct stat ours, there;
	size_t i;

	if (fstat(placeholder, &ours) < 0)
		return;
	for (i = 0; i < ws->fd_count; i++) {
		if (fstat(ws->fds[i], &there) == 0 && there.st_ino == ours.st_ino &&
			there.st_dev == ours.st_dev)
			close(ws->fds[i]);
	}
}

static void
destroy_context(struct ws *ws)
{
	int ends[2] = {-1, -1}, i;

	if (pipe2(ends, O_CLOEXEC) < 0)
		ws->fd_count = 0;
	ws_reap_vhosts(ws);
	lws_context_destroy(ws->context);
	hold_places(ws, ends[0]);
	/* libuv closes handles in later turns of the loop: those of connections, then the
	 * context's. */
	for (i = 0; i < DESTROY_TURNS; i++)
		loop_turn(ws->loop);
	lws_context_destroy(ws->context);
	free_places(ws, ends[0]);
	cleanup_fd(&ends[0]);
	cleanup_fd(&ends[1]);
}

void
ws_free(struct ws **out)
{
	struct ws *ws = take_ptr(out);

	if (ws == NULL)
		return;
	ws->freeing = true;
	if (ws->context != NULL)
		destroy_context(ws);
	while (ws->conns != NULL) {
		ws_end(ws->conns, "shutting down");
		ws_conn_free(ws->conns);
	}
	ws_free_pipes(ws);
	timer_free(&ws->reap);
	free(ws);
}
