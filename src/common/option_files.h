/*
 * Secret options in files of their own: hub.tokenFile replaces hub.token. So a configuration that
 * others may read (a ConfigMap) contains no secrets; the file is a mounted Secret or a systemd
 * credential.
 *
 *	option_from_file(&c, "hub.tokenFile", o->hub_token_file, "hub.token", &o->hub_token);
 *
 * Called while options are checked, before privileges are dropped; SIGHUP reads the files again.
 * Error messages never contain the file's content.
 */
#ifndef EDGEWAY_SRC_COMMON_OPTION_FILES_H
#define EDGEWAY_SRC_COMMON_OPTION_FILES_H

#include "src/common/option_checks.h"

/* Sets *value (the old one is freed) to the single line of the file `path`, without a byte order
 * mark and surrounding white space; path "": does nothing. -EINVAL: value is given as well, or the
 * file cannot be read, is empty, larger than 16 KiB or not text. */
int option_from_file(const struct option_check *c, const char *key, const char *path,
	const char *value_key, char **value);

/* The same for a list: one entry per line; empty lines and lines that begin with # are skipped. */
int option_list_from_file(const struct option_check *c, const char *key, const char *path,
	const char *value_key, char ***list);

#endif
