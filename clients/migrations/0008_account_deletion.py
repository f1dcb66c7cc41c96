"""Name exports and deletions in the audit log, and let the trigger pass the removal of a deleted account's events."""

from django.db import migrations, models

REPLACE = """
CREATE OR REPLACE FUNCTION clients_auditevent_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('simservice.removes_account', true) = 'on' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'events of the audit log are never changed or deleted' USING ERRCODE = 'check_violation';
END $$;
"""
RESTORE = """
CREATE OR REPLACE FUNCTION clients_auditevent_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'events of the audit log are never changed or deleted' USING ERRCODE = 'check_violation';
END $$;
"""


class Migration(migrations.Migration):
    phase = "expand"
    dependencies = [("clients", "0007_renamed_jobs")]
    operations = [
        migrations.RunSQL(REPLACE, RESTORE),
        migrations.AlterField(
            model_name='auditevent',
            name='action',
            field=models.CharField(choices=[('key.created', 'Key Created'), ('key.renamed', 'Key Renamed'), ('key.expiry_changed', 'Key Expiry Changed'), ('key.revoked', 'Key Revoked'), ('client.created', 'Client Created'), ('webhook.enabled', 'Webhook Enabled'), ('webhook.address_changed', 'Webhook Address Changed'), ('webhook.secret_rotated', 'Webhook Secret Rotated'), ('webhook.disabled', 'Webhook Disabled'), ('invitation.created', 'Invitation Created'), ('invitation.revoked', 'Invitation Revoked'), ('member.joined', 'Member Joined'), ('member.role_changed', 'Member Role Changed'), ('member.removed', 'Member Removed'), ('member.left', 'Member Left'), ('account.plan_changed', 'Account Plan Changed'), ('account.renamed', 'Account Renamed'), ('account.suspended', 'Account Suspended'), ('account.resumed', 'Account Resumed'), ('account.exported', 'Account Exported'), ('account.deletion_requested', 'Account Deletion Requested'), ('account.deletion_undone', 'Account Deletion Undone'), ('credits.granted', 'Credits Granted'), ('credits.corrected', 'Credits Corrected'), ('job.cancelled', 'Job Cancelled'), ('job.renamed', 'Job Renamed'), ('job.requeued', 'Job Requeued'), ('job.released', 'Job Released')], max_length=32),
        ),
    ]
