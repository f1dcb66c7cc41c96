"""Limit the reasons of grants and the pools of plans to the contract's lists; add the operator's note to grants."""

from django.db import migrations, models
from django.db.models import F, Q

REASONS = [
    ("grant_developer_allowance", "Developer allowance"),
    ("grant_beta", "Beta"),
    ("grant_promo", "Promotion"),
    ("grant_onboarding", "Onboarding"),
    ("onboarding", "Welcome credits"),
    ("allowance", "Monthly allowance"),
    ("promo", "Automatic promotion"),
]
POOLS = [("standard", "Standard"), ("warm", "Warm"), ("dedicated", "Dedicated")]


def keep_words_as_notes(apps, schema_editor):
    """Move operators' texts to the note; an allowance needs no note."""
    grants = apps.get_model("billing", "Grant").objects
    grants.filter(allowance_month=None).update(note=F("reason"), reason="grant_promo")
    grants.exclude(allowance_month=None).update(reason="allowance")


def put_words_back(apps, schema_editor):
    grants = apps.get_model("billing", "Grant").objects
    for reason, label in REASONS:
        grants.filter(reason=reason, note="").update(reason=label)
    grants.exclude(note="").update(reason=F("note"))


def choose_known_pools(apps, schema_editor):
    """Replace all other pools, which meant the standard one."""
    plans = apps.get_model("billing", "Plan").objects
    plans.exclude(pool__in=dict(POOLS)).update(pool="standard")


class Migration(migrations.Migration):
    dependencies = [("billing", "0005_submission_bytes")]
    operations = [
        migrations.AddField("grant", "note", models.CharField(blank=True, default="", max_length=200), preserve_default=False),
        migrations.RunPython(keep_words_as_notes, put_words_back),
        migrations.AlterField("grant", "reason", models.CharField(choices=REASONS, max_length=25)),
        migrations.AddConstraint(
            "grant", models.CheckConstraint(condition=Q(reason__in=list(dict(REASONS))), name="grant_reason_known")
        ),
        migrations.RunPython(choose_known_pools, migrations.RunPython.noop),
        migrations.AlterField("plan", "pool", models.CharField(choices=POOLS, default="standard", max_length=9)),
        migrations.AddConstraint(
            "plan", models.CheckConstraint(condition=Q(pool__in=list(dict(POOLS))), name="plan_pool_known")
        ),
    ]
