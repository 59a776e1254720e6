/* Oneway sends messages from one process to another one by ZeroMQ over ipc for some seconds, and prints how many the receiver got
   in a second. Build: cc -O2 oneway.c -lzmq. Arguments: the socket's path, bytes of a message, seconds. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* send_until sends until the time, and then a message that is one byte longer: the last one. */
static int send_until(const char *addr, char *body, int size, double end) {
	void *context = zmq_ctx_new();
	void *socket = zmq_socket(context, ZMQ_PUSH);
	if (zmq_connect(socket, addr) != 0)
		return 1;
	do {
		for (int k = 0; k < 64; k++)
			if (zmq_send(socket, body, size, 0) != size)
				return 1;
	} while (now() < end);
	if (zmq_send(socket, body, size + 1, 0) != size + 1)
		return 1;
	zmq_close(socket);
	zmq_ctx_term(context);
	return 0;
}

int main(int argc, char **argv) {
	if (argc != 4)
		return 2;
	char addr[512];
	snprintf(addr, sizeof addr, "ipc://%s", argv[1]);
	int size = atoi(argv[2]);
	double seconds = atof(argv[3]);
	char *body = calloc(1, size + 1);
	pid_t sender = fork();
	if (sender == 0)
		_exit(send_until(addr, body, size, now() + 1.2 * seconds));
	void *context = zmq_ctx_new();
	void *socket = zmq_socket(context, ZMQ_PULL);
	int most = 10000;
	zmq_setsockopt(socket, ZMQ_RCVTIMEO, &most, sizeof most);
	if (zmq_bind(socket, addr) != 0)
		goto failed;
	double warm = now() + 0.2 * seconds, began = 0;
	long count = 0;
	for (long all = 0;; all++) {
		int n = zmq_recv(socket, body, size + 1, 0);
		if (n < 0)
			goto failed;
		if (began > 0)
			count++;
		else if (all % 64 == 0 && now() > warm)
			began = now();
		if (n == size + 1)
			break;
	}
	if (began == 0)
		goto failed;
	printf("%.0f\n", count / (now() - began));
	zmq_close(socket);
	zmq_ctx_term(context);
	int status = 0;
	waitpid(sender, &status, 0);
	return status != 0;
failed:
	fprintf(stderr, "%s: %s\n", addr, zmq_strerror(zmq_errno()));
	kill(sender, SIGKILL);
	waitpid(sender, NULL, 0);
	return 1;
}
