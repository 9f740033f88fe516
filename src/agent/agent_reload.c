#include <string.h>

#include "base/core/log.h"
#include "src/agent/agent_private.h"
#include "src/common/reload.h"

void
agent_use_access_log(struct agent *a)
{
	struct err err = {0};

	if (lb_access_log(a->lb, (enum lb_access_mode)a->options->lb_access_log,
		    (uint32_t)a->options->lb_access_log_sample, &err) < 0)
		log_error("agent", "no access log until the next SIGHUP: %s", err.text);
}

/* The two lists are swapped, so that each is freed with its struct. */
static void
use_reach(struct agent *a, struct agent_options *read)
{
	char **former = a->options->tunnel_reach;

	a->options->tunnel_reach = read->tunnel_reach;
	read->tunnel_reach = former;
	agent_tunnel_reach(a, a->options);
}

static void
use_sample(struct agent *a, struct agent_options *read)
{
	char *former = a->options->tracing_sample;

	a->options->tracing_sample = read->tracing_sample;
	read->tracing_sample = former;
	a->options->tracing_limit = read->tracing_limit;
	agent_tracing_use(a);
}

/* The file is read at each attempt to join, so a new token in it needs no restart. */
static void
reload_keep_token(const struct agent *a, struct agent_options *read)
{
	if (read->hub_token_file[0] == '\0' ||
		strcmp(read->hub_token_file, a->options->hub_token_file) != 0)
		return;
	free(read->hub_token);
	read->hub_token = xstrdup(a->options->hub_token);
}

void
agent_reload(void *arg)
{
	struct agent *a = arg;
	struct agent_options read = {0};
	struct err err = {0};
	bool check;

	if (agent_options_load(&read, a->argc, a->argv, &check, &err) != OPT_RUN) {
		log_error("agent", "the configuration is not reloaded: %s", err.text);
	} else {
		reload_keep_token(a, &read);
		reload_report("agent", &agent_program, a->options, &read);
		a->options->log_level = read.log_level;
		a->options->log_format = read.log_format;
		a->options->drain_timeout = read.drain_timeout;
		a->options->on_stop = read.on_stop;
		use_reach(a, &read);
		a->options->lb_access_log = read.lb_access_log;
		a->options->lb_access_log_sample = read.lb_access_log_sample;
		agent_use_access_log(a);
		use_sample(a, &read);
		log_setup((enum log_level)read.log_level, (enum log_format)read.log_format);
	}
	agent_options_free(&read);
}
