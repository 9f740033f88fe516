/* A configuration file of either program: refused with a reason, or taken, and then it dumps as a
 * file that gives the same values. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/core/buf.h"
#include "base/core/log.h"
#include "src/agent/agent_options.h"
#include "src/hub/hub_options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int
memory_file(const void *data, size_t len, char *path, size_t size)
{
	int fd = memfd_create("config", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, len) != (ssize_t)len)
		abort();
	snprintf(path, size, "/proc/self/fd/%d", fd);
	return fd;
}

static bool
load(const struct opt_program *p, void *values, const void *data, size_t len)
{
	char path[40], config[] = "--config";
	char *argv[] = {config, config, path, NULL};
	auto_fd int fd = memory_file(data, len, path, sizeof path);
	struct err err = {0};
	bool check, taken = opt_load(p, values, 3, argv, &check, &err) == OPT_RUN;

	(void)fd; /* clang sees no use in what only closes */
	assert(taken == (err.text[0] == '\0'));
	return taken;
}

static void
agent(const uint8_t *data, size_t len)
{
	struct agent_options o = {0}, again = {0};
	struct err err = {0};

	if (load(&agent_program, &o, data, len)) {
		/* a secret does not come back from a dump */
		bool plain = o.hub_token[0] == '\0' && strchr(o.hub_proxy, '@') == NULL;
		struct buf out auto_buf;

		buf_init(&out, BUF_UNLIMITED);
		opt_dump(&agent_program, &o, &out);
		if (plain && memchr(data, '@', len) == NULL) {
			assert(load(&agent_program, &again, buf_str(&out), buf_len(&out)));
			assert(opt_changed(&agent_program, &o, &again, NULL) == NULL);
		}
		if (agent_options_check(&o, &err) < 0)
			assert(err.text[0] != '\0');
	}
	agent_options_free(&again);
	agent_options_free(&o);
}

static void
hub(const uint8_t *data, size_t len)
{
	struct hub_options o = {0};
	struct err err = {0};

	if (load(&hub_program, &o, data, len) && hub_options_check(&o, &err) < 0)
		assert(err.text[0] != '\0');
	opt_free(&hub_program, &o);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (len > 64 * 1024)
		return 0;
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	agent(data, len);
	hub(data, len);
	return 0;
}
