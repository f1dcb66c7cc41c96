/* A simulator that sleeps for 0.1 ms in each fight instead of computing it, so two cores can run dozens of them at a
 * time. Without profilesets, its actor is named after the Unix time of its start, so the job's summary shows how long
 * the job took to reach the simulator. The profileset `setN` is up to 8 percent worse than `set0`, and means have the
 * errors of real fights, so stages cull profilesets as they cull real ones.
 *
 * It reads profiles with one actor whose profilesets are written in consecutive lines, and writes `report.json`. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FIGHT_NANOSECONDS 100000L
#define SECOND 1000000000L
#define UPDATE_FIGHTS 2500L
#define CHECK_FIGHTS 100L
#define MAX_SETS 100000
#define BEST_MEAN 100000.0
/* Greatest and least distances from the best profileset, and the standard deviation of fights, in percent. */
#define SPREAD 8.0
#define CLOSEST 0.05
#define FIGHT_PERCENT 8.0

typedef struct {
    char *name;
    /* Negative if inherited from the base. */
    long iterations;
    double target_error;
    long fights;
} Simulation;

static Simulation base = {"Sleeper", 1000, 0, 0}, sets[MAX_SETS];
static long count, slept_fights;
static struct timespec wakes_at;

static void set_number(Simulation *simulation, const char *option) {
    sscanf(option, "iterations=%ld", &simulation->iterations);
    sscanf(option, "target_error=%lf", &simulation->target_error);
}

static Simulation *profileset(const char *name, size_t length) {
    if (count && strlen(sets[count - 1].name) == length && !strncmp(sets[count - 1].name, name, length))
        return &sets[count - 1];
    if (count == MAX_SETS) exit(1);
    sets[count] = (Simulation){strndup(name, length), -1, -1, 0};
    return &sets[count++];
}

static void read_profile(FILE *file) {
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, file) >= 0) {
        char *kept = line, *name = line + 11;
        for (char *each = line; *each; each++)
            if (!strchr("\"\r\n", *each)) *kept++ = *each;
        *kept = 0;
        char *equals = strchr(line, '=');
        if (strncmp(line, "profileset.", 11)) set_number(&base, line);
        else if (equals) set_number(profileset(name, equals - name - (equals[-1] == '+')), equals + 1);
    }
}

static long planned_fights(const Simulation *simulation) {
    long iterations = simulation->iterations < 0 ? base.iterations : simulation->iterations;
    double error = simulation->target_error < 0 ? base.target_error : simulation->target_error;
    if (error <= 0) return iterations;
    double needed = 1.96 * FIGHT_PERCENT / error;
    long fights = CHECK_FIGHTS * (1 + (long)(needed * needed / CHECK_FIGHTS));
    return fights < iterations ? fights : iterations;
}

static void simulate(Simulation *simulation, const char *label, long number) {
    long total = planned_fights(simulation);
    while (simulation->fights < total) {
        long left = total - simulation->fights, fights = left < UPDATE_FIGHTS ? left : UPDATE_FIGHTS;
        long nanoseconds = wakes_at.tv_nsec + fights * FIGHT_NANOSECONDS;
        wakes_at.tv_sec += nanoseconds / SECOND;
        wakes_at.tv_nsec = nanoseconds % SECOND;
        /* An absolute time, so a busy machine does not make fights longer. */
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wakes_at, NULL)) continue;
        simulation->fights += fights;
        printf("Generating %s %ld/%ld [====================] %ld/%ld 10000.000%s", label, number, count + 1,
            simulation->fights, total, fights < left ? " 1sec\r" : " 1.000\n");
        fflush(stdout);
    }
    slept_fights += total;
}

static void write_figures(FILE *file, const Simulation *simulation, const char *deviation, const char *error) {
    /* `setN` and its replicates have the same mean. Multiples of the golden ratio are spread evenly. */
    long number = strncmp(simulation->name, "set", 3) ? 0 : atol(simulation->name + 3);
    double place = number * 0.6180339887, percent = CLOSEST + (place - (long)place) * (SPREAD - CLOSEST);
    double mean = number ? BEST_MEAN * (1 - percent / 100) : BEST_MEAN, spread = mean * FIGHT_PERCENT / 100;
    fprintf(file, "\"mean\":%.6f,\"min\":%.6f,\"max\":%.6f,\"%s\":%.6f,\"%s\":%.6f", mean, mean / 2, mean * 2,
        deviation, spread, error, spread / sqrt(simulation->fights));
}

static int write_report(double started) {
    FILE *file = fopen("report.json", "w");
    double seconds = slept_fights * (double)FIGHT_NANOSECONDS / SECOND;
    if (!file) return 1;
    fprintf(file, "{\"version\":\"1120-01\",\"report_version\":\"2.0.0\",\"sim\":{\"options\":{\"iterations\":%ld},"
        "\"statistics\":{\"elapsed_cpu_seconds\":%.6f,\"elapsed_time_seconds\":%.6f},", base.fights, seconds, seconds);
    if (count) fprintf(file, "\"players\":[{\"name\":\"%s\",\"collected_data\":{\"dps\":{", base.name);
    else fprintf(file, "\"players\":[{\"name\":\"%.6f\",\"collected_data\":{\"dps\":{", started);
    write_figures(file, &base, "std_dev", "mean_std_dev");
    fprintf(file, ",\"count\":%ld}}}]", base.fights);
    if (count) fputs(",\"profilesets\":{\"metric\":\"Damage per Second\",\"results\":[", file);
    for (long i = 0; i < count; i++) {
        fprintf(file, "%s{\"name\":\"%s\",", i ? "," : "", sets[i].name);
        write_figures(file, &sets[i], "stddev", "mean_stddev");
        fprintf(file, ",\"iterations\":%ld}", sets[i].fights);
    }
    fputs(count ? "]}}}\n" : "}}\n", file);
    return fclose(file) != 0;
}

int main(int argc, char **argv) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    clock_gettime(CLOCK_MONOTONIC, &wakes_at);
    puts("SimulationCraft 1120-01 for World of Warcraft 11.2.0 Live");
    fflush(stdout);
    for (int i = 1; i < argc; i++)
        if (!strncmp(argv[i], "display_build=", 14)) return 0;
    FILE *profile = argc < 2 ? NULL : fopen(argv[1], "r");
    if (!profile) return 1;
    read_profile(profile);
    simulate(&base, "Baseline:", 1);
    for (long i = 0; i < count; i++) simulate(&sets[i], "Profileset:", i + 2);
    return write_report(now.tv_sec + now.tv_nsec / 1e9);
}
