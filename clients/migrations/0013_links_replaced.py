"""Add the replacement of share links to the actions of the audit log."""

from django.db import migrations, models


class Migration(migrations.Migration):
    phase = "expand"

    dependencies = [("clients", "0012_sharing_changed")]

    operations = [
        migrations.AlterField(
            model_name="auditevent",
            name="action",
            field=models.CharField(choices=[('key.created', 'Key Created'), ('key.renamed', 'Key Renamed'), ('key.expiry_changed', 'Key Expiry Changed'), ('key.revoked', 'Key Revoked'), ('client.created', 'Client Created'), ('webhook.enabled', 'Webhook Enabled'), ('webhook.address_changed', 'Webhook Address Changed'), ('webhook.secret_rotated', 'Webhook Secret Rotated'), ('webhook.disabled', 'Webhook Disabled'), ('invitation.created', 'Invitation Created'), ('invitation.revoked', 'Invitation Revoked'), ('member.joined', 'Member Joined'), ('member.role_changed', 'Member Role Changed'), ('member.removed', 'Member Removed'), ('member.left', 'Member Left'), ('account.plan_changed', 'Account Plan Changed'), ('account.renamed', 'Account Renamed'), ('account.suspended', 'Account Suspended'), ('account.resumed', 'Account Resumed'), ('account.exported', 'Account Exported'), ('account.deletion_requested', 'Account Deletion Requested'), ('account.deletion_undone', 'Account Deletion Undone'), ('account.grace_period_ended', 'Account Grace Period Ended'), ('account.sharing_changed', 'Account Sharing Changed'), ('credits.granted', 'Credits Granted'), ('credits.corrected', 'Credits Corrected'), ('job.cancelled', 'Job Cancelled'), ('job.renamed', 'Job Renamed'), ('job.links_replaced', 'Job Links Replaced'), ('job.requeued', 'Job Requeued'), ('job.released', 'Job Released')], max_length=32),
        ),
    ]
