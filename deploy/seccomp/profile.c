/*
 * Prints the profile of container runtimes, and what the units of systemd have as
 * SystemCallFilter=:
 *
 *	deploy/seccomp/profile json > deploy/seccomp/edgeway.json
 *	deploy/seccomp/profile systemd > deploy/seccomp/calls
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/os/sandbox_table.h"

/* A process, but none with namespaces of its own: CLONE_NEW* of sched.h, CLONE_NEWTIME apart, which
 * clone(2) cannot ask for. */
#define NAMESPACES "2114060288"

/* The next word of the list, whose rest is left; false at its end. */
static bool
next_word(const char **words, char name[32])
{
	int used;

	if (sscanf(*words, "%31s%n", name, &used) != 1)
		return false;
	*words += used;
	return true;
}

static void
print_lines(const char *words)
{
	char name[32];

	while (next_word(&words, name))
		puts(name);
}

static bool
has_word(const char *words, const char *wanted)
{
	char name[32];

	while (next_word(&words, name))
		if (strcmp(name, wanted) == 0)
			return true;
	return false;
}

static void
print_rule(const char *words, const char *action, const char *except)
{
	const char *comma = "";
	char name[32];

	printf("\t\t{\n\t\t\t\"names\": [");
	while (next_word(&words, name)) {
		if (strcmp(name, "clone") == 0 || has_word(except, name))
			continue; /* which has a rule of its own */
		printf("%s\n\t\t\t\t\"%s\"", comma, name);
		comma = ",";
	}
	printf("\n\t\t\t],\n\t\t\t\"action\": \"%s\"", action);
}

static void
print_bounds(void)
{
	for (unsigned i = 0; i < sandbox_n_bounds; i++) {
		const struct sandbox_bound *b = &sandbox_bounds[i];

		if (strcmp(b->call, "ioctl") == 0)
			continue; /* a shell's terminal needs others */
		printf("\t\t{\n\t\t\t\"names\": [\"%s\"],\n\t\t\t\"action\": \"SCMP_ACT_ALLOW\",\n"
		       "\t\t\t\"args\": [{\"index\": %u, \"value\": %" PRIu64
		       ", \"valueTwo\": %" PRIu64 ", \"op\": \"SCMP_CMP_MASKED_EQ\"}]\n\t\t},\n",
			b->call, b->arg, b->mask, b->value);
	}
}

/* errnoRet: engines that do not know defaultErrnoRet say EPERM, which is no answer to a
 * question. */
static void
print_json(void)
{
	printf("{\n\t\"defaultAction\": \"SCMP_ACT_ERRNO\",\n\t\"defaultErrnoRet\": %d,\n"
	       "\t\"architectures\": [\"SCMP_ARCH_X86_64\", \"SCMP_ARCH_AARCH64\", "
	       "\"SCMP_ARCH_ARM\"],\n\t\"syscalls\": [\n",
		ENOSYS);
	print_rule(sandbox_running, "SCMP_ACT_ALLOW", "");
	printf("\n\t\t},\n");
	/* no rings, which whoever is in the container could make too */
	print_rule(sandbox_starting, "SCMP_ACT_ALLOW", sandbox_probed);
	printf("\n\t\t},\n");
	print_rule(sandbox_container, "SCMP_ACT_ALLOW", "");
	printf("\n\t\t},\n");
	print_bounds();
	printf("\t\t{\n\t\t\t\"names\": [\"clone\"],\n\t\t\t\"action\": \"SCMP_ACT_ALLOW\",\n"
	       "\t\t\t\"args\": [{\"index\": 0, \"value\": " NAMESPACES
	       ", \"valueTwo\": 0, \"op\": \"SCMP_CMP_MASKED_EQ\"}]\n\t\t},\n");
	print_rule(sandbox_probed, "SCMP_ACT_ERRNO", "");
	printf(",\n\t\t\t\"errnoRet\": %d\n\t\t}\n\t]\n}\n", ENOSYS);
}

static void
print_systemd(void)
{
	print_lines(sandbox_running);
	print_lines(sandbox_starting);
	for (unsigned i = 0; i < sandbox_n_bounds; i++) {
		if (i == 0 || strcmp(sandbox_bounds[i].call, sandbox_bounds[i - 1].call) != 0)
			puts(sandbox_bounds[i].call);
	}
}

int
main(int argc, char **argv)
{
	bool json = argc == 2 && strcmp(argv[1], "json") == 0;

	if (!json && (argc != 2 || strcmp(argv[1], "systemd") != 0)) {
		fprintf(stderr, "usage: profile json|systemd\n");
		return 2;
	}
	if (json)
		print_json();
	else
		print_systemd();
	return 0;
}
