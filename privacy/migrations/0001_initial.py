"""Add exports of data and deletions of accounts."""

import django.db.models.deletion
import django.db.models.functions.datetime
import privacy.models
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    phase = "expand"

    initial = True

    dependencies = [
        ('billing', '0009_plan_retention_and_storage'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='AccountDeletion',
            fields=[
                ('account', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='deletion', serialize=False, to='billing.account')),
                ('requested_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('requested_by', models.CharField(blank=True, max_length=300)),
                ('due_at', models.DateTimeField()),
                ('suspended_before', models.DateTimeField(null=True)),
                ('completed_at', models.DateTimeField(null=True)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('completed_at', None)), fields=['due_at'], name='account_deletion_open')],
            },
        ),
        migrations.CreateModel(
            name='Export',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('storage_name', models.CharField(default=privacy.models.storage_name, max_length=64, unique=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('attempt', models.PositiveSmallIntegerField(default=0)),
                ('lease_expires_at', models.DateTimeField(null=True)),
                ('completed_at', models.DateTimeField(null=True)),
                ('failed_at', models.DateTimeField(null=True)),
                ('bytes', models.PositiveBigIntegerField(null=True)),
                ('expires_at', models.DateTimeField(null=True)),
                ('account', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='billing.account')),
                ('user', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('completed_at', None), ('failed_at', None)), fields=['id'], name='export_waiting'), models.Index(condition=models.Q(('expires_at__isnull', False)), fields=['expires_at'], name='export_expiring')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('bytes', None), ('completed_at', None)), models.Q(('bytes__isnull', False), ('completed_at__isnull', False), ('failed_at', None)), _connector='OR'), name='export_completed_has_a_file'), models.CheckConstraint(condition=models.Q(models.Q(('completed_at', None), ('failed_at', None)), ('expires_at__isnull', False), _connector='OR'), name='export_ended_expires')],
            },
        ),
    ]
