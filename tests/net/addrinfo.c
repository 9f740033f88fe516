/*
 * getaddrinfo as a program in a pod calls it, built with glibc and with musl: addrinfo NAME...
 * One line a name: the name, EAI_* or OK, milliseconds, addresses. AF_UNSPEC: A and AAAA at once.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static double
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static const char *
said(int rc)
{
	switch (rc) {
	case 0:
		return "OK";
	case EAI_NONAME:
		return "EAI_NONAME";
	case EAI_AGAIN:
		return "EAI_AGAIN";
	case EAI_FAIL:
		return "EAI_FAIL";
	default:
		return gai_strerror(rc);
	}
}

int
main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
		double start = now_ms();
		int rc = getaddrinfo(argv[i], "80", &hints, &all);

		printf("%s %s %.0f", argv[i], said(rc), now_ms() - start);
		for (struct addrinfo *a = all; rc == 0 && a != NULL; a = a->ai_next) {
			char host[64];

			getnameinfo(a->ai_addr, a->ai_addrlen, host, sizeof host, NULL, 0,
				NI_NUMERICHOST);
			printf(" %s", host);
		}
		printf("\n");
		if (rc == 0)
			freeaddrinfo(all);
	}
	return 0;
}
