#include "base/os/fswatch.h"

#include <errno.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

struct fswatch {
	struct watch *watch;
	fswatch_fn *fn;
	void *arg;
	char *folder;
	int fd;
	bool busy; /* inside on_ready, which frees */
	bool stopped; /* while busy */
};

/* A created file is reported when it is closed; a link is complete at once. */
static bool
is_link(const struct fswatch *w, const char *name)
{
	auto_free char *path = xasprintf("%s/%s", w->folder, name);
	struct stat st;

	return lstat(path, &st) == 0 &&
		(S_ISLNK(st.st_mode) || (S_ISREG(st.st_mode) && st.st_nlink > 1));
}

static bool
fswatch_matters(const struct fswatch *w, const struct inotify_event *ev)
{
	return !(ev->mask & IN_CREATE) || ev->len == 0 || is_link(w, ev->name);
}

static void
free_watch(struct fswatch *w)
{
	free(w->folder);
	free(w);
}

static const char *
name_of(const struct inotify_event *ev)
{
	if (ev->mask & (IN_Q_OVERFLOW | IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT))
		return NULL;
	return ev->len > 0 ? ev->name : NULL;
}

static void
on_ready(void *arg, int fd, unsigned events)
{
	struct fswatch *w = arg;
	char bytes[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t n;

	(void)events;
	w->busy = true;
	while (!w->stopped && (n = read(fd, bytes, sizeof bytes)) > 0) {
		for (char *at = bytes; at < bytes + n && !w->stopped;) {
			const struct inotify_event *ev = (const struct inotify_event *)(void *)at;

			at += sizeof *ev + ev->len;
			if (fswatch_matters(w, ev))
				w->fn(w->arg, name_of(ev));
		}
	}
	w->busy = false;
	if (w->stopped)
		free_watch(w);
}

int
fswatch_start(struct fswatch **out, struct loop *loop, const char *folder, fswatch_fn *fn,
	void *arg, struct err *err)
{
	auto_fd int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	struct fswatch *w;

	if (fd < 0)
		return err_set(err, errno, "inotify: %s", strerror(errno));
	if (inotify_add_watch(fd, folder,
		    IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE |
			    IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR) < 0)
		return err_set(err, errno, "cannot watch folder %s: %s", folder, strerror(errno));
	w = xcalloc(1, sizeof *w);
	w->fn = fn;
	w->arg = arg;
	w->folder = xstrdup(folder);
	w->fd = take_fd(&fd);
	w->watch = watch_start(loop, w->fd, WATCH_READ, on_ready, w);
	*out = w;
	return 0;
}

void
fswatch_stop(struct fswatch **out)
{
	struct fswatch *w = take_ptr(out);

	if (w == NULL)
		return;
	watch_stop(&w->watch);
	close(w->fd);
	if (w->busy)
		w->stopped = true;
	else
		free_watch(w);
}
