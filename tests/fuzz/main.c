/*
 * Replays inputs through a fuzzer without libFuzzer: `make check` feeds each fuzzer its seeds with
 * this main. A folder stands for the files in it. Says how many inputs it fed; a crash is the
 * failure.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { INPUT_MAX = 16 << 20 };

static unsigned fed;

static void
feed_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *bytes = malloc(INPUT_MAX), *exact;
	size_t n = 0;

	if (f != NULL && bytes != NULL)
		n = fread(bytes, 1, INPUT_MAX, f);
	if (f == NULL || bytes == NULL || ferror(f)) {
		perror(path);
		exit(1);
	}
	fclose(f);
	/* exactly as long as the input, so that the sanitizer sees one byte too many */
	exact = malloc(n > 0 ? n : 1);
	if (exact == NULL)
		abort();
	memcpy(exact, bytes, n);
	free(bytes);
	LLVMFuzzerTestOneInput(exact, n);
	free(exact);
	fed++;
}

static void
feed(const char *path)
{
	char entry[4096];
	struct stat st;
	struct dirent *d;
	DIR *dir;

	if (stat(path, &st) < 0) {
		perror(path);
		exit(1);
	}
	if (!S_ISDIR(st.st_mode)) {
		feed_file(path);
		return;
	}
	dir = opendir(path);
	while (dir != NULL && (d = readdir(dir)) != NULL) {
		if (d->d_name[0] == '.')
			continue;
		snprintf(entry, sizeof entry, "%s/%s", path, d->d_name);
		feed(entry);
	}
	if (dir != NULL)
		closedir(dir);
}

int
main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		feed(argv[i]);
	printf("%u inputs\n", fed);
	return fed > 0 ? 0 : 1;
}
