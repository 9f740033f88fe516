#include <stdio.h>

#include "base/log.h"
#include "src/agent.h"

int
main(int argc, char **argv)
{
	struct agent_options options = {0};
	struct agent *agent = NULL;
	struct err err = {0};
	bool check = false;
	int status;

	switch (agent_options_load(&options, argc, argv, &check, &err)) {
	case OPT_EXIT_OK:
		return 0;
	case OPT_EXIT_BAD:
		fprintf(stderr, "edgeway-agent: %s\n", err.text);
		return 2;
	case OPT_RUN:
		break;
	}
	if (check) {
		puts("the configuration is fine");
		agent_options_free(&options);
		return 0;
	}
	log_setup((enum log_level)options.log_level, (enum log_format)options.log_format);
	if (agent_start(&agent, &options, argc, argv, &err) < 0) {
		log_error("agent", "cannot start: %s", err.text);
		return 1;
	}
	status = agent_run(&agent);
	agent_options_free(&options);
	return status;
}
