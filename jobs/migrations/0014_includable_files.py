from datetime import UTC

from django.db import migrations, models

REASON = "It did not simulate, or the policy refused it; register the build again to see why."


def count_checks(apps, schema_editor):
    """Write checks as a total and failures with reasons instead of a status and names."""
    for build in checked_builds(apps):
        failed = build.ci["failed"]
        build.ci = {
            "total": len(build.profiles) + len(failed),
            "failures": [{"name": name, "reason": REASON} for name in failed],
            "checked_at": build.created_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        build.save(update_fields=["ci"])


def name_failures(apps, schema_editor):
    for build in checked_builds(apps):
        failed = [failure["name"] for failure in build.ci["failures"]]
        build.ci = {"status": "failed" if failed else "passed", "failed": failed}
        build.save(update_fields=["ci"])


def checked_builds(apps):
    return apps.get_model("jobs", "Build").objects.exclude(ci=None).only("ci", "profiles", "created_at").iterator()


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0013_final_percent_and_staged_jobs"),
    ]

    operations = [
        migrations.AddField(
            model_name="build",
            name="includable",
            field=models.JSONField(db_default=[], default=list),
        ),
        migrations.RunPython(count_checks, name_failures),
    ]
