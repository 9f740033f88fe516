#include <stdio.h>

#include "base/core/log.h"
#include "src/agent/agent.h"
#include "src/agent/restore.h"
#include "src/common/check.h"
#include "src/common/limits.h"

static int
agent_main_run(struct agent_options *options, int argc, char **argv)
{
	static struct agent *agent; /* a failed start leaves it to the end of the process */
	struct err err = {0};
	bool check = false;

	switch (agent_options_load(options, argc, argv, &check, &err)) {
	case OPT_EXIT_OK:
		return 0;
	case OPT_EXIT_BAD:
		fprintf(stderr, "edgeway-agent: %s\n", err.text);
		return 2;
	case OPT_RUN:
		break;
	}
	if (check)
		return check_print(&agent_program, options);
	log_setup((enum log_level)options->log_level, (enum log_format)options->log_format);
	if (opt_action(options))
		return restore(options);
	if (agent_start(&agent, options, argc, argv, &err) < 0) {
		log_error("agent", "cannot start: %s", err.text);
		return 1;
	}
	return agent_run(&agent);
}

int
main(int argc, char **argv)
{
	struct agent_options options = {0};
	int status;

	open_standard_descriptors();
	opt_hide_secrets(&agent_program, argc, argv);
	status = agent_main_run(&options, argc, argv);
	agent_options_free(&options);
	return status;
}
