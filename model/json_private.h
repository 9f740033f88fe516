/*
 * Between json.c (values, by cJSON), json_guard.c (what cJSON must not see) and json_write.c. Pure
 * functions over bytes.
 */
#ifndef EDGEWAY_MODEL_JSON_PRIVATE_H
#define EDGEWAY_MODEL_JSON_PRIVATE_H

#include "model/json.h"

/* May cJSON have this text? It checks the rest of the grammar. Else json_wrong has been told. */
bool json_guard(struct json *j, const char *text, size_t len);
/* Length of the UTF-8 sequence at p (RFC 3629), 0 when it is none. */
size_t json_utf8_len(const char *p, size_t left);

#endif
