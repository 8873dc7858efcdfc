"""The tables of the marts. Percentiles are exact, linear between neighbours (as SQL's PERCENTILE_CONT)."""

from euterpe.analytics.schema import Table, columns

THROUGHPUT = Table(
    "throughput",
    "Show how many jobs were accepted, and their outcomes.",
    ("day", "requester", "profile", "queue"),
    columns("""
        day day When the jobs were accepted.
        requester string Whose jobs they are.
        profile string Their profile.
        queue string Their queue.
        jobs long Jobs accepted.
        succeeded long Of these, succeeded.
        failed long Failed, and waiting for a person's decision.
        dead_letter long Given up.
        canceled long Ended because the requester wanted so.
        in_flight long Not ended yet.
        success_rate double succeeded / (succeeded + failed + dead_letter); null when none of these.
        output_minutes double Minutes of media made.
    """),
)

LATENCY = Table(
    "latency",
    "Show where the time of a job goes.",
    ("profile", "queue", "stage"),
    columns("""
        profile string The profile.
        queue string The queue.
        stage string waiting (due to first claim), fetch, encode, upload or total (due to end).
        count long Jobs or attempts measured.
        p50_ms double Half took at most this.
        p95_ms double 95 % took at most this.
        p99_ms double 99 % took at most this.
        max_ms double The longest.
    """),
)

SPEED = Table(
    "speed",
    "Show how fast encoding is: seconds of media for each second of ffmpeg.",
    ("profile", "ffmpeg"),
    columns("""
        profile string The profile.
        ffmpeg string The version of ffmpeg.
        attempts long Attempts that succeeded and were measured.
        media_minutes double Minutes of source that they encoded.
        factor double All media over all encoding time.
        p05_factor double 95 % were faster than this.
        p50_factor double The median.
        cpu_per_media_second double Seconds of processor for a second of media.
    """),
)

FAILURES = Table(
    "failures",
    "Show what fails, where, and since when.",
    ("error_code", "error_phase"),
    columns("""
        error_code string The code (docs/errors.md).
        error_phase string The phase.
        attempts long Attempts that failed with it.
        jobs long Jobs that met it.
        requesters long Requesters that met it.
        recovered double Share of these jobs that succeeded all the same, of those that have ended.
        first_seen time When it was first met.
        last_seen time When it was last met.
        last_week long Attempts in the seven days before the end of the history.
        week_before long In the seven days before those.
        trend string new (first seen last week), gone (not seen then), rising, falling or steady.
    """),
)

REFRESHES = Table(
    "refreshes",
    "Tell whether credentials that expire are renewed in time.",
    ("requester",),
    columns("""
        requester string The requester.
        jobs long Its jobs.
        refreshed_jobs long Jobs whose credentials were renewed at least once.
        refreshes long Renewals.
        refreshed_share double refreshed_jobs / jobs.
        succeeded_after double Share of the ended refreshed jobs that succeeded; canceled ones left out.
        credential_failures long Attempts that failed because storage refused the credentials.
    """),
)

WEBHOOKS = Table(
    "webhooks",
    "Tell whether webhooks arrive in time, and whether receivers accept them.",
    ("requester",),
    columns("""
        requester string The requester.
        events long Events for which its receiver is to be sent a webhook.
        delivered long Accepted by the receiver.
        pending long To be tried, for the first time or again.
        untried long Of the pending, those that were never tried.
        dead_letter long Given up.
        tries_per_event double Tries for each event that was tried.
        p50_ms double Half of the delivered arrived within this time after they happened.
        p95_ms double 95 % of them.
        p99_ms double 99 % of them.
        judged long Events that ended, or were pending for longer than the objective's time when read.
        within_slo double Share of the judged that were delivered within the objective's time; null when none.
        meets_slo bool Whether that is as large as the objective asks.
        worst_error string The commonest error code of its events' latest failed tries; null when none failed.
    """),
)

SIZES = Table(
    "sizes",
    "Show which encodes waste bits.",
    ("profile",),
    columns("""
        profile string The profile.
        jobs long Jobs that succeeded and whose sizes are known.
        bytes_in long Bytes of source.
        bytes_out long Bytes of output.
        ratio double bytes_out / bytes_in.
        p50_ratio double The median of the jobs' own ratios.
        larger_than_source long Jobs whose outputs take more than their source.
        kbit_per_second double Bits of output for each second of output, in thousands.
        measured long Jobs with a VMAF.
        p05_vmaf double 95 % are better than this.
        p50_vmaf double The median.
        generous long Jobs above VMAF 97: a lower bit rate would hardly be seen.
    """),
)

COSTS = Table(
    "costs",
    "Show what each requester and profile cost.",
    ("requester", "profile"),
    columns("""
        requester string The requester.
        profile string The profile.
        jobs long Jobs with at least one ended attempt.
        cpu_hours double Processor time; where it is unknown, the time that the attempt held its slot.
        estimated_hours double The part of cpu_hours that is slot time.
        wasted_cpu_hours double The part of cpu_hours in attempts that did not succeed.
        wasted_estimated_hours double The part of wasted_cpu_hours that is slot time.
        gib_in double GiB read.
        gib_out double GiB written.
        output_minutes double Minutes of media made.
        cost double cpu_hours, gib_in and gib_out, each times its price.
        wasted_cost double wasted_cpu_hours times its price.
        cost_per_output_minute double cost / output_minutes; null when none.
    """),
)

UTILISATION = Table(
    "utilisation",
    "Show how busy the workers are.",
    ("day", "worker_id"),
    columns("""
        day day The day (an attempt over midnight counts on each day for its part).
        worker_id string The worker.
        attempts long Attempts that ran on that day; one without an end until the history's, or for a week.
        busy_seconds double Their time, added up.
        present_seconds double From the first beginning to the last end of that day.
        mean_busy double busy_seconds / present_seconds: jobs at once, on average while present.
        peak_busy long Most jobs at once.
        utilisation double mean_busy / peak_busy.
    """),
)

CAPACITY = Table(
    "capacity",
    "Show how many worker slots next month needs, by queue.",
    ("queue",),
    columns("""
        queue string The queue.
        arrivals_per_hour double Jobs in the busiest hour of the last 28 days.
        service_seconds double Mean time that the attempts of a job take together.
        service_cv2 double Squared coefficient of variation of that time.
        load double Slots kept busy in that hour: arrivals x service.
        weekly_growth double Growth of arrivals a week, over up to eight whole weeks; 0 with less than three.
        forecast_load double load grown by the days of the forecast (30).
        slots_now long Most attempts at once in the last 28 days.
        slots_needed long Fewest slots that keep p95 waiting within the target at forecast_load.
        p95_wait_seconds double The waiting that the model expects with them.
        p95_wait_now_seconds double The same of slots_now at forecast_load; null when they cannot keep up.
        p50_model_seconds double The median waiting that the model expects of slots_now in that hour.
        p95_model_seconds double The 95th percentile of the same; null when they cannot keep up.
        p50_busiest_seconds double The median waiting that was seen of the jobs of that hour.
        p95_busiest_seconds double The 95th percentile of the same.
        p50_waited_seconds double The median waiting that was seen in the last 28 days.
        p95_waited_seconds double The 95th percentile of the same.
        still_waiting long Jobs of the last 28 days that still wait: in all of these for as long as they have.
        model_gap double Larger over smaller of p95_model_seconds and p95_busiest_seconds, each plus 1 s.
        model string The model and what it assumes.
    """),
)

REGRESSIONS = Table(
    "regressions",
    "Show what a new ffmpeg changed beyond noise.",
    ("profile", "ffmpeg", "measure"),
    columns("""
        profile string The profile.
        ffmpeg string The newer version (first seen later).
        baseline string The version before it.
        measure string speed (real-time factor) or failure_rate.
        before double With the baseline: geometric mean, or failures that an encoder can cause by attempt.
        after double With the newer one.
        change double after / before - 1 for speed, after - before for failure_rate.
        count_before long Attempts with the baseline that are compared, the latest ones.
        count_after long Attempts with the newer one that are compared.
        p_value double Of such a change by chance, corrected for all comparisons (Holm); null for too few.
        verdict string worse, better, no evidence (p > 1 %, < 3 % of speed, < half a point) or too few.
    """),
)

FAIRNESS = Table(
    "fairness",
    "Tell whether some requesters wait for others in the same queue.",
    ("queue", "requester"),
    columns("""
        queue string The queue.
        requester string The requester.
        jobs long Its jobs in this queue that were claimed, or are due and wait.
        still_waiting long Of these, the jobs that wait: they count with what they have waited so far.
        share_of_jobs double Of these jobs of the queue.
        share_of_work double Of the queue's busy time.
        mean_priority double Mean priority of its jobs: those of a higher one are claimed first.
        p50_waiting_ms double Its median waiting in this queue.
        p95_waiting_ms double Its 95th percentile.
        waiting_ratio double p95_waiting_ms over that of all jobs of the queue; null when that is 0.
        is_compared bool Whether it and another requester have at least 30 jobs in this queue.
        jain double Jain's index of the compared requesters' mean waiting + 1 s; null where there are none.
    """),
)

MARTS = {
    table.name: table
    for table in (
        THROUGHPUT,
        LATENCY,
        SPEED,
        FAILURES,
        REFRESHES,
        WEBHOOKS,
        SIZES,
        COSTS,
        UTILISATION,
        CAPACITY,
        REGRESSIONS,
        FAIRNESS,
    )
}
