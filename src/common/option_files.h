/*
 * Options that are secrets, from files of their own: hub.tokenFile stands for hub.token. So a
 * configuration that others may read (a ConfigMap) holds none, and a Secret is mounted, or a
 * credential of systemd's named, as the file.
 *
 *	option_from_file(&c, "hub.tokenFile", o->hub_token_file, "hub.token", &o->hub_token);
 *
 * Called while options are checked, before privileges are given up; a SIGHUP reads the files again.
 * No complaint holds what is in the file.
 */
#ifndef EDGEWAY_SRC_COMMON_OPTION_FILES_H
#define EDGEWAY_SRC_COMMON_OPTION_FILES_H

#include "src/common/option_checks.h"

/* The one line of the file `path` becomes *value (freed and replaced), white space around it gone;
 * path "": nothing is done. -EINVAL: value is given as well, the file cannot be read, is empty,
 * larger than 16 KiB or no text. */
int option_from_file(const struct option_check *c, const char *key, const char *path,
	const char *value_key, char **value);

/* The same with a list: an entry a line; empty ones and those that begin with # are passed over. */
int option_list_from_file(const struct option_check *c, const char *key, const char *path,
	const char *value_key, char ***list);

#endif
