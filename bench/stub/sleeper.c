/* A simulator that sleeps for 0.1 ms in each fight instead of computing it, so two cores can run dozens of them at a
 * time. Its profilesets differ by up to 8 percent and their means have the errors of real fights, so stages cull them
 * as they cull real ones. All numbers depend only on the names and on the number of fights.
 *
 * It reads profiles with one actor whose profilesets are written in consecutive lines, and writes `report.json`.
 * On SIGINT it drops the running profileset, reports those that have ended, and exits with 1. */
#define _GNU_SOURCE
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FIGHT_NANOSECONDS 100000L
#define UPDATE_FIGHTS 2500L
#define BEST_MEAN 100000.0
/* Greatest and least distances from the best profileset, and the standard deviation of fights, in percent. */
#define SPREAD 8.0
#define CLOSEST 0.05
#define FIGHT_PERCENT 8.0
#define ESTIMATOR 1.96
#define CHECK_FIGHTS 100L
#define SECOND 1000000000L

typedef struct {
    char *name;
    /* Negative if inherited from the base. */
    long iterations;
    double target_error;
    /* Finished fights; 0 unless its simulation finished. */
    long fights;
} Simulation;

static Simulation base = {"Sleeper", 1000, 0, 0}, *sets;
static long count, capacity, slept_fights;
static struct timespec wakes_at;
static volatile sig_atomic_t interrupted;

static void interrupt(int number) {
    (void)number;
    interrupted = 1;
}

static void without_quotes(char *text) {
    char *kept = text;
    for (; *text; text++)
        if (*text != '"' && *text != '\r' && *text != '\n') *kept++ = *text;
    *kept = 0;
}

static void set_number(Simulation *simulation, const char *option) {
    if (!strncmp(option, "iterations=", 11)) simulation->iterations = atol(option + 11);
    if (!strncmp(option, "target_error=", 13)) simulation->target_error = atof(option + 13);
}

static Simulation *profileset(const char *name, size_t length) {
    if (count && strlen(sets[count - 1].name) == length && !strncmp(sets[count - 1].name, name, length))
        return &sets[count - 1];
    if (count == capacity) sets = realloc(sets, (capacity = 2 * capacity + 64) * sizeof *sets);
    if (!sets) exit(1);
    sets[count] = (Simulation){strndup(name, length), -1, -1, 0};
    return &sets[count++];
}

static void read_line(char *line) {
    without_quotes(line);
    if (strncmp(line, "profileset.", 11)) {
        set_number(&base, line);
        return;
    }
    char *name = line + 11, *equals = strchr(name, '=');
    if (!equals) return;
    size_t length = equals - name - (equals[-1] == '+');
    set_number(profileset(name, length), equals + 1);
}

static int read_profile(const char *path) {
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t size = 0;
    if (!file) return 1;
    while (getline(&line, &size, file) >= 0) read_line(line);
    free(line);
    return fclose(file) != 0;
}

static long planned_fights(const Simulation *simulation) {
    long iterations = simulation->iterations < 0 ? base.iterations : simulation->iterations;
    double error = simulation->target_error < 0 ? base.target_error : simulation->target_error;
    if (error <= 0) return iterations;
    double needed = pow(ESTIMATOR * FIGHT_PERCENT / error, 2);
    long checks = (long)ceil(needed / CHECK_FIGHTS);
    long fights = CHECK_FIGHTS * (checks < 1 ? 1 : checks);
    return fights < iterations ? fights : iterations;
}

static void sleep_fights(long fights) {
    long nanoseconds = wakes_at.tv_nsec + fights % 10000 * FIGHT_NANOSECONDS;
    wakes_at.tv_sec += fights / 10000 + nanoseconds / SECOND;
    wakes_at.tv_nsec = nanoseconds % SECOND;
    slept_fights += fights;
    /* An absolute time, so a busy machine does not make fights longer. */
    while (!interrupted && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wakes_at, NULL)) continue;
}

static void simulate(Simulation *simulation, const char *label, long number) {
    long total = planned_fights(simulation), done = 0;
    while (done < total && !interrupted) {
        long next = total - done < UPDATE_FIGHTS ? total - done : UPDATE_FIGHTS;
        sleep_fights(next);
        done += next;
        printf("Generating %s %ld/%ld [====================] %ld/%ld 10000.000%s", label, number, count + 1, done, total,
            done < total ? " 1sec\r" : " 1.000\n");
        fflush(stdout);
    }
    if (!interrupted) simulation->fights = total;
}

static uint64_t hash(const char *text, size_t length, uint64_t value) {
    value ^= 14695981039346656037u;
    for (size_t i = 0; i < length; i++) value = (value ^ (unsigned char)text[i]) * 1099511628211u;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

/* Return a number from 0 to 1. */
static double uniform(const char *text, size_t length, uint64_t seed) {
    return (hash(text, length, seed) >> 11) / 9007199254740992.0;
}

/* Return a number with a nearly standard normal distribution, from the sum of twelve uniform numbers. */
static double normal(const char *text, uint64_t seed) {
    double sum = -6;
    for (uint64_t i = 0; i < 12; i++) sum += uniform(text, strlen(text), 12 * seed + i);
    return sum;
}

static double true_mean(const char *name) {
    /* A replicate has the mean of its original. */
    size_t length = strcspn(name, "~");
    if (length == 4 && !strncmp(name, "set0", 4)) return BEST_MEAN;
    return BEST_MEAN * (1 - (CLOSEST + uniform(name, length, 0) * (SPREAD - CLOSEST)) / 100);
}

static void write_figures(FILE *file, const Simulation *simulation, const char *deviation, const char *error) {
    double mean = true_mean(simulation->name), spread = mean * FIGHT_PERCENT / 100;
    double uncertain = spread / sqrt(simulation->fights ? simulation->fights : 1);
    double shown = mean + uncertain * normal(simulation->name, simulation->fights);
    fprintf(file, "\"mean\":%.6f,\"min\":%.6f,\"max\":%.6f,\"%s\":%.6f,\"%s\":%.6f", shown, mean / 2, mean * 2,
        deviation, spread, error, uncertain);
}

static int write_report(void) {
    FILE *file = fopen("report.json", "w");
    const char *separator = "";
    double seconds = slept_fights * (double)FIGHT_NANOSECONDS / SECOND;
    if (!file) return 1;
    fprintf(file, "{\"version\":\"1120-01\",\"report_version\":\"2.0.0\",\"sim\":{\"options\":{\"iterations\":%ld},"
        "\"players\":[{\"name\":\"%s\",\"collected_data\":{\"dps\":{", base.fights, base.name);
    write_figures(file, &base, "std_dev", "mean_std_dev");
    fprintf(file, ",\"count\":%ld}}}],\"statistics\":{\"elapsed_cpu_seconds\":%.6f,\"elapsed_time_seconds\":%.6f,"
        "\"total_events_processed\":%ld}", base.fights, seconds, seconds, slept_fights);
    if (count) fputs(",\"profilesets\":{\"metric\":\"Damage per Second\",\"results\":[", file);
    for (long i = 0; i < count; i++) {
        if (!sets[i].fights) continue;
        fprintf(file, "%s{\"name\":\"%s\",", separator, sets[i].name);
        write_figures(file, &sets[i], "stddev", "mean_stddev");
        fprintf(file, ",\"iterations\":%ld}", sets[i].fights);
        separator = ",";
    }
    fputs(count ? "]}}}\n" : "}}\n", file);
    return fclose(file) != 0;
}

int main(int argc, char **argv) {
    puts("SimulationCraft 1120-01 for World of Warcraft 11.2.0 Live");
    fflush(stdout);
    for (int i = 1; i < argc; i++)
        if (!strncmp(argv[i], "display_build=", 14)) return 0;
    struct sigaction action = {.sa_handler = interrupt};
    sigaction(SIGINT, &action, NULL);
    if (argc < 2 || read_profile(argv[1])) return 1;
    clock_gettime(CLOCK_MONOTONIC, &wakes_at);
    simulate(&base, "Baseline:", 1);
    for (long i = 0; i < count && !interrupted; i++) simulate(&sets[i], "Profileset:", i + 2);
    return write_report() || (interrupted && count);
}
