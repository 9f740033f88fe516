/*
 * Shared by json.c (values, with cJSON), json_guard.c (checks before cJSON) and json_write.c. Pure
 * functions over bytes.
 */
#ifndef EDGEWAY_MODEL_JSON_PRIVATE_H
#define EDGEWAY_MODEL_JSON_PRIVATE_H

#include "model/json.h"

/* Is this text safe for cJSON, which checks the rest of the grammar? If not, the error is recorded
 * by json_wrong. */
bool json_guard(struct json *j, const char *text, size_t len);
/* Length of the UTF-8 sequence at p (RFC 3629), 0 when it is invalid. */
size_t json_utf8_len(const char *p, size_t left);

#endif
