/* A simulator that does no work: it writes a valid report and exits. The actor's name is the Unix time of its start,
 * so the job's summary shows how long the job took to reach the simulator. */
#include <stdio.h>
#include <string.h>
#include <time.h>

static int write_file(const char *name, const char *format, double started) {
    FILE *file = fopen(name, "w");
    if (!file) return 1;
    fprintf(file, format, started);
    return fclose(file) != 0;
}

int main(int argc, char **argv) {
    struct timespec now;
    int failed = 0;
    clock_gettime(CLOCK_REALTIME, &now);
    double started = now.tv_sec + now.tv_nsec / 1e9;
    puts("SimulationCraft 1120-01 for World of Warcraft 11.2.0 Live");
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "display_build=", 14)) return 0;
        if (!strcmp(argv[i], "html=report.html")) failed |= write_file("report.html", "<p>%.6f</p>\n", started);
    }
    failed |= write_file("report.json", "{\"version\":\"1\",\"report_version\":\"2.0.0\",\"sim\":{\"options\":{\"iterations\":10},"
        "\"players\":[{\"name\":\"%.6f\",\"collected_data\":{\"dps\":{\"mean\":5,\"mean_std_dev\":1}}}]}}\n", started);
    return failed;
}
