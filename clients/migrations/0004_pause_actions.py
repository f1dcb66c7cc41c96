"""Record when jobs are paused and resumed."""

from django.db import migrations, models


class Migration(migrations.Migration):
    phase = "expand"
    dependencies = [("clients", "0003_key_scopes_and_credits_notices")]

    operations = [
        migrations.AlterField(
            "auditevent",
            "action",
            models.CharField(choices=[('key.created', 'Key Created'), ('key.renamed', 'Key Renamed'), ('key.scope_changed', 'Key Scope Changed'), ('key.addresses_changed', 'Key Addresses Changed'), ('key.expiry_changed', 'Key Expiry Changed'), ('key.revoked', 'Key Revoked'), ('client.created', 'Client Created'), ('webhook.enabled', 'Webhook Enabled'), ('webhook.address_changed', 'Webhook Address Changed'), ('webhook.secret_rotated', 'Webhook Secret Rotated'), ('webhook.disabled', 'Webhook Disabled'), ('webhook.events_changed', 'Webhook Events Changed'), ('invitation.created', 'Invitation Created'), ('invitation.revoked', 'Invitation Revoked'), ('member.joined', 'Member Joined'), ('member.role_changed', 'Member Role Changed'), ('member.removed', 'Member Removed'), ('member.left', 'Member Left'), ('account.plan_changed', 'Account Plan Changed'), ('account.renamed', 'Account Renamed'), ('account.suspended', 'Account Suspended'), ('account.resumed', 'Account Resumed'), ('account.exported', 'Account Exported'), ('account.deletion_requested', 'Account Deletion Requested'), ('account.deletion_undone', 'Account Deletion Undone'), ('account.grace_period_ended', 'Account Grace Period Ended'), ('account.sharing_changed', 'Account Sharing Changed'), ('credits.granted', 'Credits Granted'), ('credits.corrected', 'Credits Corrected'), ('credits.notice_changed', 'Credits Notice Changed'), ('job.cancelled', 'Job Cancelled'), ('job.paused', 'Job Paused'), ('job.resumed', 'Job Resumed'), ('job.renamed', 'Job Renamed'), ('job.links_replaced', 'Job Links Replaced'), ('job.sharing_changed', 'Job Sharing Changed'), ('job.requeued', 'Job Requeued'), ('job.released', 'Job Released')], max_length=32),
        ),
    ]
