"""Add scopes and addresses of keys, and low-credit notices."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    phase = "expand"
    dependencies = [
        ('billing', '0003_entries_besides_charges'),
        ('clients', '0002_audit_log_and_login'),
    ]

    operations = [
        migrations.AddField(
            model_name='apikey',
            name='addresses',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=43), blank=True, db_default=[], default=list, size=None),
        ),
        migrations.AddField(
            model_name='apikey',
            name='scope',
            field=models.CharField(choices=[('read', 'Read'), ('submit', 'Submit'), ('manage', 'Manage')], db_default='manage', default='manage', max_length=6),
        ),
        migrations.AlterField(
            model_name='auditevent',
            name='action',
            field=models.CharField(choices=[('key.created', 'Key Created'), ('key.renamed', 'Key Renamed'), ('key.scope_changed', 'Key Scope Changed'), ('key.addresses_changed', 'Key Addresses Changed'), ('key.expiry_changed', 'Key Expiry Changed'), ('key.revoked', 'Key Revoked'), ('client.created', 'Client Created'), ('webhook.enabled', 'Webhook Enabled'), ('webhook.address_changed', 'Webhook Address Changed'), ('webhook.secret_rotated', 'Webhook Secret Rotated'), ('webhook.disabled', 'Webhook Disabled'), ('webhook.events_changed', 'Webhook Events Changed'), ('invitation.created', 'Invitation Created'), ('invitation.revoked', 'Invitation Revoked'), ('member.joined', 'Member Joined'), ('member.role_changed', 'Member Role Changed'), ('member.removed', 'Member Removed'), ('member.left', 'Member Left'), ('account.plan_changed', 'Account Plan Changed'), ('account.renamed', 'Account Renamed'), ('account.suspended', 'Account Suspended'), ('account.resumed', 'Account Resumed'), ('account.exported', 'Account Exported'), ('account.deletion_requested', 'Account Deletion Requested'), ('account.deletion_undone', 'Account Deletion Undone'), ('account.grace_period_ended', 'Account Grace Period Ended'), ('account.sharing_changed', 'Account Sharing Changed'), ('credits.granted', 'Credits Granted'), ('credits.corrected', 'Credits Corrected'), ('credits.notice_changed', 'Credits Notice Changed'), ('job.cancelled', 'Job Cancelled'), ('job.renamed', 'Job Renamed'), ('job.links_replaced', 'Job Links Replaced'), ('job.sharing_changed', 'Job Sharing Changed'), ('job.requeued', 'Job Requeued'), ('job.released', 'Job Released')], max_length=32),
        ),
        migrations.CreateModel(
            name='CreditsNotice',
            fields=[
                ('account', models.OneToOneField(editable=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='credits_notice', serialize=False, to='billing.account')),
                ('threshold', models.PositiveBigIntegerField()),
                ('is_low', models.BooleanField(default=False)),
                ('fell_at', models.DateTimeField(null=True)),
                ('tell_owners_at', models.DateTimeField(null=True)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('tell_owners_at__isnull', False)), fields=['tell_owners_at'], name='credits_notice_untold')],
                'constraints': [models.CheckConstraint(condition=models.Q(('threshold__gt', 0)), name='credits_notice_positive')],
            },
        ),
    ]
